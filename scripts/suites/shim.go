package main

// In the place of the plugin's own functions: executes the binary, as a runtime does.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/onsi/ginkgo/v2"
)

// The configuration of Spoke for this spec: a store of its own.
func shimConfig() (string, error) {
	report := ginkgo.CurrentSpecReport()
	folder := fmt.Sprintf("/tmp/store-%d-%d", os.Getpid(), report.StartTime.UnixNano())
	file := folder + "/config.toml"
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	text := fmt.Sprintf("[store]\nruntime = %q\nstate = %q\n", folder+"/run", folder+"/state")
	return file, os.WriteFile(file, []byte(text), 0o644)
}

func shim(command string, args *skel.CmdArgs) error {
	config, err := shimConfig()
	if err != nil {
		return err
	}
	call := exec.Command(os.Getenv("SHIM_PLUGINS") + "/@plugin@")
	call.Env = append(os.Environ(), "CNI_COMMAND="+command, "CNI_CONTAINERID="+args.ContainerID,
		"CNI_NETNS="+args.Netns, "CNI_IFNAME="+args.IfName, "CNI_ARGS="+args.Args,
		"CNI_PATH="+os.Getenv("SHIM_PLUGINS"), "CNI_NETNS_OVERRIDE=1", "SPOKE_CONFIG="+config)
	call.Stdin = bytes.NewReader(args.StdinData)
	var out bytes.Buffer
	call.Stdout, call.Stderr = &out, os.Stderr
	err = call.Run()
	var exit *exec.ExitError
	if err == nil {
		_, err = os.Stdout.Write(out.Bytes())
		return err
	}
	if !errors.As(err, &exit) {
		return err
	}
	said := &types.Error{}
	if json.Unmarshal(out.Bytes(), said) != nil {
		return fmt.Errorf("no error of CNI: %s: %w", out.String(), err)
	}
	// What the plugins' functions return, before it has a code; suites compare it whole.
	return errors.New(said.Error())
}
