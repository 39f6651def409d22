// What the experts of a dump must be, one at a time. Reading can fail where the judge asks, and the
// judge knows no reasons: the first one is kept here, and asked for when the judge is done.
#pragma once

#include "app/dump_case.h"
#include "verify/reference.h"

namespace slicecheck::app {

class DumpReference {
 public:
  /// The experts of `group`. All ranks' stock files are opened where they are the reference.
  DumpReference(const DumpCase& dump, std::int64_t group);
  DumpReference(const DumpReference&) = delete;
  DumpReference& operator=(const DumpReference&) = delete;

  verify::Reference& experts() { return *experts_; }

  /// Whether the stock is the reference itself: its bytes are then right by definition.
  bool stock_is_true() const { return stock_is_true_; }

  /// The first reason why an expert could not be read.
  const Reason& reason() const { return reason_; }

 private:
  experts::PlainExpert from_checkpoint(std::int64_t expert);
  experts::PlainExpert from_stock(std::int64_t expert);
  experts::PlainExpert none(const Reason& reason);

  const DumpCase& dump_;
  std::vector<int> ranks_;
  std::vector<std::optional<checkpoint::DumpStock>> stocks_;
  std::unique_ptr<verify::Reference> experts_;
  bool stock_is_true_ = false;
  Reason reason_;
};

/// A plain expert of a stock whose padding is declared, as it must be: what lies in the padding is
/// zero, and rows that stand where both halves were padded together at the end are put back.
experts::PlainExpert with_clean_padding(const experts::PlainExpert& plain,
                                        const layout::Widths& data);

}  // namespace slicecheck::app
