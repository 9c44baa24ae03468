# The short commands. Each installs what is missing, works from a fresh clone, and says what it does.
.PHONY: build test demo bench rivals differential fuzz asan tsan format tidy clean deps models build-dev

jobs ?= $(shell nproc)
release := build/release/bin
text := Tilemesh reads 2026 lines
# Of `make differential`: others than those of .ci/run.
seeds ?= 11 12
# Of `make fuzz`.
mutants ?= 1000000
fuzz_seed ?= 11
# Under the thread sanitizer: what has threads of its own. Kernels aren't among it, since the
# synchronisation of OpenMP's teams is invisible to it.
thread_parts := ^(device|mesh|runtime|collectives|backends/cpu|backends/null)/
thread_tests := ^(device|mesh|runtime|collectives|backends/null)/|^backends/cpu/(Arena|Scratch|CpuDevice|CpuBackend|WorkerPool|OmpThreads|CoreLease)\.

build: deps
	@echo "== building a release into $(release)"
	@cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=NOTICE >/dev/null
	@cmake --build --preset release --parallel $(jobs)

build-dev: deps
	@echo "== building the tests into build/dev"
	@cmake --preset dev -DCMAKE_MESSAGE_LOG_LEVEL=NOTICE >/dev/null
	@cmake --build --preset dev --parallel $(jobs)

test: build-dev models
	@echo "== running every test"
	@ctest --preset dev --parallel $(jobs) --output-junit ctest.xml

demo: build models
	@echo "== speech: speaking sentences into build/demo/speech.wav, then finding them"
	@tools/speak.sh build/demo/speech.wav
	@$(release)/tilemesh-speech build/models/silero_vad.onnx build/demo/speech.wav --mesh 1x2
	@echo "== reading: rendering \"$(text)\" into build/demo/line.ppm, then reading it"
	@build/venv/bin/python tools/render_line.py "$(text)" build/demo/line.ppm
	@$(release)/tilemesh-reading build/models/ch_PP-OCRv4_rec_infer.onnx \
	  build/models/ch_PP-OCRv4_rec_infer.characters.txt build/demo/line.ppm --mesh 1x2

bench: rivals build models
	@echo "== measuring against rivals and limits into build/bench.json"
	@build/venv/bin/python tools/bench.py --output build/bench.json

rivals:
	@tools/install_deps.sh rivals

differential: models
	@echo "== comparing 30,000 random models with onnxruntime, differences into build/differential"
	@cmake --preset dev -DCMAKE_MESSAGE_LOG_LEVEL=NOTICE >/dev/null
	@cmake --build --preset dev --parallel $(jobs) --target model_server
	@for seed in $(seeds); do build/venv/bin/python tests/differential/run.py --seed $$seed \
	  --count 15000 --jobs $(jobs) || exit 1; done

fuzz: deps
	@echo "== trying $(mutants) mutants of .tmb and of .onnx files, faults into build/asan/faults"
	@cmake --preset asan -DCMAKE_MESSAGE_LOG_LEVEL=NOTICE >/dev/null
	@cmake --build --preset asan --parallel $(jobs) --target fuzz
	@for kind in tmb onnx; do build/asan/bin/fuzz $$kind --seed $(fuzz_seed) --count $(mutants) \
	  --jobs $(jobs) --save build/asan/faults || exit 1; done

asan: deps models
	@echo "== building and running the tests under the address and undefined-behaviour sanitizers"
	@cmake --preset asan -DCMAKE_MESSAGE_LOG_LEVEL=NOTICE >/dev/null
	@cmake --build --preset asan --parallel $(jobs)
	@ctest --preset asan --parallel $(jobs) --output-junit ctest.xml

tsan: deps models
	@echo "== building and running the tests of queues, events and executors under the thread sanitizer"
	@cmake --preset tsan -DCMAKE_MESSAGE_LOG_LEVEL=NOTICE >/dev/null
	@tools/build_tests.sh tsan '$(thread_parts)'
	@ctest --preset tsan --parallel $(jobs) --output-junit ctest.xml -R '$(thread_tests)'

format: deps
	@echo "== formatting all C++ sources"
	@tools/format.sh

tidy: deps
	@echo "== running clang-tidy over src, without the tests"
	@cmake --preset dev -DCMAKE_MESSAGE_LOG_LEVEL=NOTICE >/dev/null
	@tools/tidy.sh build/dev

deps:
	@tools/install_deps.sh

models: deps
	@tools/fetch_models.sh
	@tools/fetch_node_tests.sh

clean:
	@echo "== removing build/"
	@rm -rf build
