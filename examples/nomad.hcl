# Not tried: Debian 12 has no Nomad. The list 10-front.conflist is in /etc/cni/net.d, and the client's cni_path
# has the plugins (`spoke cni install`).
job "web" {
  group "web" {
    network {
      mode = "cni/front"
      port "http" {
        static = 8080
        to     = 80
      }
    }
    task "server" {
      driver = "docker"
      config {
        image   = "busybox"
        command = "sh"
        args    = ["-c", "echo hello >/tmp/index.html && exec httpd -f -h /tmp"]
      }
    }
  }
}
