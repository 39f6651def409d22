#include "app/evidence.h"

#include "group/agree.h"

namespace slicecheck::app {

verify::Evidence gathered(group::Group& group, const verify::Evidence& mine) {
  const ByteVector bytes = verify::packed(mine);
  verify::Evidence all;
  for (const std::string& each :
       group::share_texts(group, std::string(bytes.begin(), bytes.end()))) {
    verify::join(
        all, verify::unpacked({reinterpret_cast<const std::uint8_t*>(each.data()), each.size()}));
  }
  return all;
}

}  // namespace slicecheck::app
