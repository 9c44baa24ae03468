// Giving a tensor away is said with donate, and a donation is no tensor any more.
// error: conversion from
#include "tilemesh/tensor/tensor.hpp"

tilemesh::Tensor keep(const tilemesh::Tensor& tensor) {
#ifdef MUST_NOT_COMPILE
  tilemesh::Tensor result = tilemesh::donate(tensor);
#else
  tilemesh::Tensor result = tilemesh::donate(tensor).tensor;
#endif
  return result;
}
