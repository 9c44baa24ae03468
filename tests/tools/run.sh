# usage: run.sh PYTHON SCRIPT
[ -x "$1" ] || { echo "skipped: $1 isn't there; tools/setup_python.sh makes it"; exit 77; }
exec "$1" "$2"
