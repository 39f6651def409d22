// The one call by which a rank learns of its NCCL, with another answer: 2.18.5.
extern "C" int ncclGetVersion(int* version) {
  *version = 21805;
  return 0;
}
