# Podman 5 in a root of its own: its storage below /run/stage, its networks where Podman has them by
# itself, Spoke installed as its plugin, and an image of busybox with a page to serve.
mkdir -p /run/stage/image/{bin,etc,proc,sys,dev,tmp,www} /etc/containers/containers.conf.d
cd /run/stage
cat >/etc/containers/containers.conf.d/10-test.conf <<'CONF'
[containers]
default_capabilities = ["CHOWN", "DAC_OVERRIDE", "KILL", "NET_BIND_SERVICE", "NET_RAW", "SYS_CHROOT"]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
CONF
cp /bin/busybox image/bin
for applet in sh httpd ip ping sleep cat wget; do ln -s busybox image/bin/$applet; done
echo "a page" >image/www/index.html
cat >podman <<'PODMAN'
#!/bin/sh
export PODMAN_IGNORE_CGROUPSV1_WARNING=1
exec timeout 120 podman --root /run/stage/root --runroot /run/stage/runroot --tmpdir /run/stage/tmp --storage-driver vfs "$@"
PODMAN
chmod 755 podman
tar -C image -c . | ./podman import -q -c 'CMD ["/bin/sleep", "3600"]' - spoke-test
/opt/cni/bin/spoke podman install
