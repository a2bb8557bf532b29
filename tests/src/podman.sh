# Makes /run/stage/podman: Podman 4.3 on the plugins of its world, with every file of its own below
# /run/stage, and an image of busybox with a page to serve.
mkdir -p /run/stage/net.d /run/stage/image/{bin,etc,proc,sys,dev,tmp,www}
cd /run/stage
cat >containers.conf <<'CONF'
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
[network]
network_backend = "cni"
cni_plugin_dirs = ["/opt/cni/bin"]
network_config_dir = "/run/stage/net.d"
CONF
cp /bin/busybox image/bin
for applet in sh httpd ping sleep cat; do ln -s busybox image/bin/$applet; done
echo "a page" >image/www/index.html
cat >podman <<'PODMAN'
#!/bin/sh
export CONTAINERS_CONF=/run/stage/containers.conf PODMAN_IGNORE_CGROUPSV1_WARNING=1
exec podman --root /run/stage/root --runroot /run/stage/runroot --tmpdir /run/stage/tmp --storage-driver vfs "$@"
PODMAN
chmod 755 podman
tar -C image -c . | ./podman import -q -c 'CMD ["/bin/sleep", "3600"]' - docker.io/library/spoke-test:1
