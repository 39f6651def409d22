"""--transport nccl where there is no device to use: all ranks refuse, with one sentence."""

import shutil

import program


class NoDevice(program.ProgramTest):
    def setUp(self):
        super().setUp()
        if shutil.which("nvidia-smi") is not None:
            self.skipTest("this machine may have a device: app.gpu is its test")

    def test_every_rank_refuses_and_the_report_says_why(self):
        ended = self.mpi(2, "reshard", "--transport", "nccl", "--probe", "none")
        self.assert_ended(ended, 3, "refused")
        self.assertEqual(len(ended.own_lines()), 1)
        finding = ended.report["findings"][0]
        self.assertEqual((finding["side"], finding["ranks"]), ("machine", [0, 1]))
        self.assertEqual(finding["cause"], "no-device")


if __name__ == "__main__":
    program.main()
