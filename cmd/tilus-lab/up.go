package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tilus-lab/tilus-lab/kernel"
	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/kernel/session"
	"github.com/tilus-lab/tilus-lab/notebooks"
	"github.com/tilus-lab/tilus-lab/web"
)

// firstLesson is where a newcomer begins.
const firstLesson = "01-low-precision-matmul.ipynb"

type upOptions struct {
	noBrowser bool
	port      int
	baseURL   string
	notebooks string

	listen     string
	hosts      []string
	role       string
	passwords  string
	cert, key  string
	staticBase string

	state string   // address of what to show first, without "?"
	asked []string // flags of how to serve
}

// unmet are flags that the explorer at an address, which runs already, is not known to be as they say: all but its port.
func (o upOptions) unmet(start string) (out []string) {
	u, err := url.Parse(start)
	for _, name := range o.asked {
		if name != "port" || o.port != -1 && (err != nil || u.Port() != strconv.Itoa(o.port)) {
			out = append(out, "--"+name)
		}
	}
	return out
}

// showing adds what to show to an address that holds a token.
func (o upOptions) showing(start string) string {
	if o.state == "" {
		return start
	}
	return start + "&" + o.state
}

func newUp() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Open the explorer, and make the kernel known to Jupyter",
		Long: fmt.Sprintf(`Install the notebook kernel for this user and start the explorer, a page on a port
of this machine that only this user can open. Neither Python nor a GPU is needed.
Doing it again changes nothing and opens the explorer that runs already; flags that
say how to serve are of a new one, and an error beside one that runs.

The port is %d unless --port says otherwise; --port -1 takes any free one. Behind
a proxy, --base-url is the address under which the proxy shows the page. Stop with
Ctrl-C; undo with "tilus-lab uninstall".

With --listen other machines reach it too. Who comes from there may look at
everything and run nothing, unless --role run says otherwise; passwords and the role
run need TLS there. A password file holds one a line, as it is or as a hash, after
"view:" or "run:" where it gives a role of its own: what htpasswd -nB view prints.`, web.DefaultPort),
		Example: `  tilus-lab up
  tilus-lab up --no-browser --port 8000
  tilus-lab up --base-url https://hub.example.org/user/ada/proxy/7717/
  tilus-lab up --listen 0.0.0.0
  tilus-lab up --listen 0.0.0.0 --password-file passwords --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.Flags().Visit(func(f *pflag.Flag) {
				if f.Name != "no-browser" {
					o.asked = append(o.asked, f.Name)
				}
			})
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return up(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.noBrowser, "no-browser", false, "only print the address")
	f.IntVar(&o.port, "port", web.DefaultPort, "`PORT` to listen on; -1 for any free one")
	f.StringVar(&o.baseURL, "base-url", "", "`ADDRESS` under which a proxy shows the page")
	f.StringVar(&o.notebooks, "notebooks", "", "`FOLDER` of notebooks to show (default ./notebooks where there is one)")
	f.StringVar(&o.listen, "listen", "127.0.0.1", "`ADDRESS` to listen on; 0.0.0.0 for all of this machine")
	f.StringSliceVar(&o.hosts, "host", nil, "`NAME` under which browsers reach this machine, where it is none of its own")
	f.StringVar(&o.role, "role", "", "what visitors may do: view or run (default run on this machine, view beyond it)")
	f.StringVar(&o.passwords, "password-file", "", "`FILE` of passwords that let people in")
	f.StringVar(&o.cert, "tls-cert", "", "`FILE` of a certificate, for https")
	f.StringVar(&o.key, "tls-key", "", "`FILE` of the certificate's key")
	f.StringVar(&o.staticBase, "static-base", "", "`ADDRESS` of a static build (tilus-lab site) that shared links begin with")
	return cmd
}

func up(ctx context.Context, out, log io.Writer, o upOptions) error {
	if o.port < -1 || o.port == 0 || o.port > 65535 {
		return usageError{fmt.Errorf("--port %d is none; ports are 1 to 65535, or -1 for any free one", o.port)}
	}
	opt, err := o.serving()
	if err != nil {
		return usageError{err}
	}
	data, err := link.DataDir()
	if err != nil {
		return err
	}
	exe, err := install(out, data)
	if err != nil {
		return err
	}
	if start, ok := web.Running(data); ok {
		if unmet := o.unmet(start); len(unmet) > 0 {
			return fmt.Errorf("the explorer runs already, as it was started, on %s; leave %s out to open it, or stop it first (Ctrl-C where it was started)", address(start), strings.Join(unmet, ", "))
		}
		start = o.showing(start)
		fmt.Fprintf(out, "Explorer runs already  %s\n", start)
		openBrowser(o, start)
		return nil
	}
	opt.DataDir, opt.Root, opt.Log = data, notebookFolder(o.notebooks, data), log
	opt.Worker = session.Options{Exe: []string{exe, "worker"}}
	b := newBackend(opt.Worker)
	defer b.close()
	opt.Backend = b
	opt.Sample = sample()
	opt.Ready = func(start string) {
		start = o.showing(start)
		fmt.Fprintf(out, "Explorer  %s\n", start)
		// A token works once, so the lesson's address gets its own.
		second, _ := web.Running(data)
		fmt.Fprint(out, hints(os.Getenv, start, second, opt.Root))
		fmt.Fprintln(out, "Stop with Ctrl-C.")
		openBrowser(o, start)
	}
	debug.SetGCPercent(web.GCPercent)
	err = web.Serve(ctx, opt)
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		fmt.Fprintln(out, "Stopped.")
		return nil
	}
	return err
}

// address is that of the explorer without the token, which is of who opens it.
func address(start string) string {
	before, _, _ := strings.Cut(start, "?")
	return before
}

// serving is who may reach the explorer, and how.
func (o upOptions) serving() (web.Options, error) {
	opt := web.Options{Addr: o.listen, Port: o.port, BaseURL: o.baseURL, Hosts: o.hosts, TLSCert: o.cert, TLSKey: o.key}
	if net.ParseIP(o.listen) == nil && o.listen != "localhost" {
		return opt, fmt.Errorf("--listen %q is no address of this machine, such as 127.0.0.1 or 0.0.0.0", o.listen)
	}
	usual := web.RoleView
	if o.role != "" {
		var err error
		if usual, err = web.ParseRole(o.role); err != nil {
			return opt, fmt.Errorf("--role: %w", err)
		}
		opt.Role = usual
	}
	if o.passwords != "" {
		var err error
		if opt.Passwords, err = web.ReadPasswords(o.passwords, usual); err != nil {
			return opt, err
		}
	}
	if o.staticBase != "" {
		u, err := url.Parse(o.staticBase)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file" {
			return opt, fmt.Errorf("--static-base %q is no address of a page, such as https://example.org/lab/", o.staticBase)
		}
		opt.StaticBase = o.staticBase
	}
	return opt, nil
}

// install keeps a copy of this program where it lasts and writes the kernelspec
// that starts it. It returns the program's path.
func install(out io.Writer, data string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return "", fmt.Errorf("the data directory cannot be made: %w; set TILUS_LAB_DATA to a folder that can be written", err)
	}
	if exe, err = kernel.KeepExe(exe, filepath.Join(data, "bin")); err != nil {
		return "", fmt.Errorf("%w; set TILUS_LAB_DATA to a folder that can be written", err)
	}
	dir, err := kernel.Install(kernel.InstallOptions{User: true, Exe: exe})
	if err != nil {
		return "", err
	}
	fmt.Fprintf(out, "Kernel    %s (undo: %s uninstall)\n", dir, exe)
	return exe, nil
}

// notebookFolder is the folder that /nb shows: the one asked for, ./notebooks
// where it holds notebooks, or one of the user's own, which gets the lessons.
func notebookFolder(asked, data string) string {
	if asked != "" {
		return asked
	}
	if wd, err := os.Getwd(); err == nil {
		here := filepath.Join(wd, "notebooks")
		if found, err := filepath.Glob(filepath.Join(here, "*.ipynb")); err == nil && len(found) > 0 {
			return here
		}
	}
	own := filepath.Join(data, "notebooks")
	if err := os.MkdirAll(own, 0o700); err != nil {
		return ""
	}
	if err := notebooks.CopyTo(own); err != nil {
		return ""
	}
	return own
}

// hints are the other ways in: the lesson in the explorer and in Jupyter, and the
// tunnel for a machine that is reached by ssh.
func hints(getenv func(string) string, start, second, root string) string {
	var b strings.Builder
	u, err := url.Parse(start)
	if err != nil {
		return ""
	}
	lesson := filepath.Join(root, firstLesson)
	if _, err := os.Stat(lesson); err == nil && root != "" {
		if at, err := url.Parse(second); err == nil && second != "" {
			at.Path = strings.TrimSuffix(at.Path, "/") + "/nb/01"
			fmt.Fprintf(&b, "Lesson 1  %s\n", at)
		}
		server, ok := findJupyter(jupyterRuntimeDir(getenv), lesson)
		switch {
		case ok:
			fmt.Fprintf(&b, "Jupyter   %s\n", server)
		case lookPath("jupyter-lab", "jupyter") != "":
			fmt.Fprintf(&b, "Jupyter   jupyter lab %s\n", shellQuote(lesson))
		}
	}
	if client := getenv("SSH_CONNECTION"); client != "" {
		// The third field is this machine's address as the client reaches it.
		host := "THIS-MACHINE"
		if f := strings.Fields(client); len(f) == 4 {
			host = f[2]
		}
		if user := getenv("USER"); user != "" {
			host = user + "@" + host
		}
		if _, port, err := net.SplitHostPort(u.Host); err == nil {
			fmt.Fprintf(&b, "SSH       ssh -L %s:127.0.0.1:%s %s (on your own machine, then open the address there)\n", port, port, host)
		}
	}
	return b.String()
}

func shellQuote(s string) string {
	if strings.ContainsAny(s, " '\"$&()[]*?;|<>\\`") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

func lookPath(names ...string) string {
	for _, n := range names {
		if p, err := exec.LookPath(n); err == nil {
			return p
		}
	}
	return ""
}

// openBrowser opens the page where there is a screen. That it did not work is no
// error: the address has been printed.
func openBrowser(o upOptions, address string) {
	if o.noBrowser || os.Getenv("SSH_CONNECTION") != "" {
		return
	}
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.Command("open", address)
	case "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", address)
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return
		}
		cmd = exec.Command("xdg-open", address)
	}
	if err := cmd.Start(); err == nil {
		go cmd.Wait()
	}
}

func newUninstall() *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Undo what up has installed",
		Long: `Remove the kernelspec of this user and the copy of the program in the data
directory. Notebooks there stay.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := link.DataDir()
			if err != nil {
				return err
			}
			if _, running := link.Running(data, false); running {
				return errors.New("the explorer still runs; stop it first (Ctrl-C where it was started)")
			}
			return uninstall(cmd.OutOrStdout(), data)
		},
	}
}

func uninstall(out io.Writer, data string) error {
	dir, err := kernel.Uninstall(kernel.InstallOptions{User: true})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Removed %s\n", dir)
	bin := filepath.Join(data, "bin")
	if err := os.RemoveAll(bin); err != nil {
		return err
	}
	fmt.Fprintf(out, "Removed %s\n", bin)
	// What is left is the user's; an empty folder is not.
	for _, d := range []string{filepath.Join(data, "notebooks"), data} {
		_ = os.Remove(d) // fails where something is left
	}
	return nil
}
