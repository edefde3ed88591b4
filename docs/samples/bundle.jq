# Changes the bundle of `umoci unpack` so that it runs a server: no terminal, a read-only root, no
# capabilities, the network of the host, and reports in the folder `reports` beside the bundle.
.process.terminal = false
| .process.capabilities = {}
| .root.readonly = true
| .linux.namespaces |= map(select(.type != "network"))
| .mounts |= map(select(.destination != "/var/lib/geoveil"))
| .mounts += [
    {destination: "/var/lib/geoveil", type: "bind", source: "../reports",
     options: ["bind", "rw", "nosuid", "nodev", "noexec"]},
    {destination: "/tmp", type: "tmpfs", source: "tmpfs", options: ["nosuid", "nodev", "noexec"]}
  ]
