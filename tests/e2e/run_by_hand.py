"""A run whose coordinators and workers a test starts one by one, as in terminals."""
from harness import REGIONS, EndToEnd, free_port, read_json


class RunByHand(EndToEnd):
    def setUp(self):
        super().setUp()
        self.addresses = {region: f"127.0.0.1:{free_port()}" for region in REGIONS}
        self.run_causeway("certs", "--directory", "certificates", "init")
        self.run_causeway("certs", "--directory", "certificates", "add-region", *REGIONS)

    def region_directory(self, region):
        return self.out / "regions" / region

    def coordinator(self, config, region, *flags):
        return self.start("coordinator", config, "--region", region, "--directory",
                          self.region_directory(region), *flags)

    def worker(self, config, region, rank=0):
        return self.start("worker", config, "--region", region, "--rank", rank, "--directory",
                          self.region_directory(region))

    def start_coordinators(self, config):
        return [self.coordinator(config, region, "--found" if region == "us-east" else "--join")
                for region in REGIONS]

    def start_workers(self, config, workers):
        return [self.worker(config, region, rank)
                for region, count in zip(REGIONS, workers) for rank in range(count)]

    def finish_all(self, children):
        for child in children:
            self.finish(child)

    def version(self, region):
        """Rounds that the region has applied."""
        status = self.region_directory(region) / "status.json"
        return read_json(status)["version"] if status.exists() else 0

    def assert_same_weights(self):
        self.assert_same_and_trained([read_json(self.region_directory(region) / "result.json") for region in REGIONS])
