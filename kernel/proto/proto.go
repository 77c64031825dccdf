// Package proto is the language that a supervisor and its worker speak.
//
// The supervisor (kernel/session) owns journals, front ends and time-outs; the worker (kernel/worker) owns the Go
// interpreter, the values of cells and the devices. They are two processes joined by two pipes. Over each pipe runs a
// sequence of frames: the length of the frame and that of its JSON, four bytes each and big-endian, the JSON, and long
// texts of a bundle as they are. Frames are never reordered, so what a cell printed, what it displayed and the end of the cell reach the front end in the order in which they happened.
//
// Requests travel from the supervisor to the worker, events from the worker to the supervisor. Each event carries the ID of
// the request that it belongs to, also when it comes late: a goroutine that a cell left behind prints under that cell.
package proto

import "encoding/json"

// Op is what a supervisor asks of a worker.
type Op string

// The requests. Execute, Comm and Reset wait for one another, but for those that are marked Beside; all others are answered
// while a cell runs.
const (
	OpExecute    Op = "execute"     // run Code as a cell; ends with one Done event
	OpInterrupt  Op = "interrupt"   // cancel the request Cell, whether it runs or waits; has no reply of its own
	OpComplete   Op = "complete"    // names that fit at Cursor; one Completed event
	OpInspect    Op = "inspect"     // what stands at Cursor; one Inspected event
	OpIsComplete Op = "is_complete" // whether Code can run as it is; one Completeness event
	OpInput      Op = "input"       // the answer to an InputRequest; no reply
	OpReset      Op = "reset"       // forget all cells and variables; one Done event
	OpComm       Op = "comm"        // hand on a comm message of the front end; ends with one Done event
	OpCall       Op = "call"        // run the lab method Method with Params; one Returned or Done event
	OpDebug      Op = "debug"       // answer the debug request in Params; one Returned event
	OpShutdown   Op = "shutdown"    // end the process; no reply
)

// Request is one frame from the supervisor to the worker.
type Request struct {
	ID         int64           `json:"id"`
	Op         Op              `json:"op"`
	Code       string          `json:"code,omitempty"`
	Cursor     int             `json:"cursor,omitempty"` // in Unicode code points from the start of Code
	Count      int             `json:"count,omitempty"`  // execution count shown in positions and tracebacks
	Silent     bool            `json:"silent,omitempty"` // display nothing but errors
	AllowStdin bool            `json:"allow_stdin,omitempty"`
	Text       string          `json:"text,omitempty"`   // the line typed, for OpInput
	EOF        bool            `json:"eof,omitempty"`    // for OpInput: there is no line
	Beside     bool            `json:"beside,omitempty"` // for OpExecute and OpComm: beside the others; for OpInterrupt: cancel those
	Cell       int64           `json:"cell,omitempty"`   // for OpInterrupt: the ID of what to cancel
	Comm       *Comm           `json:"comm,omitempty"`   // for OpComm
	Method     string          `json:"method,omitempty"` // for OpCall
	Params     json.RawMessage `json:"params,omitempty"` // for OpCall and OpDebug
}

// Kind says which payload an event carries.
type Kind string

// The events. Ready is the first event of a worker; Done is the last of a cell, except for late Stream events.
const (
	KindReady        Kind = "ready"
	KindStream       Kind = "stream"
	KindDisplay      Kind = "display"
	KindResult       Kind = "result"
	KindClear        Kind = "clear"
	KindComm         Kind = "comm"
	KindError        Kind = "error"
	KindInputRequest Kind = "input_request"
	KindVars         Kind = "vars"
	KindExplore      Kind = "explore"
	KindDone         Kind = "done"
	KindCompleted    Kind = "completed"
	KindInspected    Kind = "inspected"
	KindCompleteness Kind = "completeness"
	KindReturned     Kind = "returned"
	KindDebug        Kind = "debug"
)

// Event is one frame from the worker to the supervisor. Exactly one of the pointers is set, the one that Kind names.
type Event struct {
	ID           int64           `json:"id"` // the request this belongs to; 0 for Ready and for output that no cell owns
	Kind         Kind            `json:"kind"`
	Ready        *Ready          `json:"ready,omitempty"`
	Stream       *Stream         `json:"stream,omitempty"`
	Bundle       *Bundle         `json:"bundle,omitempty"` // KindDisplay and KindResult
	Clear        *Clear          `json:"clear,omitempty"`
	Comm         *Comm           `json:"comm,omitempty"`
	Error        *Error          `json:"error,omitempty"` // KindError; sent once, before Done
	InputRequest *InputRequest   `json:"input_request,omitempty"`
	Vars         *Vars           `json:"vars,omitempty"`
	Explore      *Explore        `json:"explore,omitempty"`
	Done         *Done           `json:"done,omitempty"`
	Completed    *Completed      `json:"completed,omitempty"`
	Inspected    *Inspected      `json:"inspected,omitempty"`
	Completeness *Completeness   `json:"completeness,omitempty"`
	Returned     json.RawMessage `json:"returned,omitempty"` // what a lab method gave back, or the response to a debug request
	Debug        json.RawMessage `json:"debug,omitempty"`    // an event of the debugger, which belongs to no request
}

// Ready says that a worker has started.
type Ready struct {
	PID     int    `json:"pid"`
	Go      string `json:"go"`      // version of Go that cells are checked against
	Version int    `json:"version"` // of this protocol
}

// Version is the protocol version that Ready carries; a supervisor refuses any other.
const Version = 2

// Stream is text that a cell printed.
type Stream struct {
	Name string `json:"name"` // "stdout" or "stderr"
	Text string `json:"text"`
}

// Bundle is one thing to show in several forms, best form chosen by the front end. Keys of Data are MIME types; values
// are strings (text, or base64 for binary types such as image/png) or JSON values (for application/json).
type Bundle struct {
	Data      map[string]any `json:"data"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	Shows     *Explore       `json:"shows,omitempty"`      // what it is a picture of, where the explorer can show that
	DisplayID string         `json:"display_id,omitempty"` // names a display that can be updated
	Update    bool           `json:"update,omitempty"`     // replaces the display of that ID
}

// Clear asks the front end to clear the output of the cell.
type Clear struct {
	Wait bool `json:"wait"` // only when the next output arrives
}

// Comm is one message of a conversation between a cell and code in the front end.
type Comm struct {
	Step     string         `json:"step"` // "open", "msg" or "close"
	ID       string         `json:"comm_id"`
	Target   string         `json:"target_name,omitempty"` // for "open"
	Data     map[string]any `json:"data"`
	Metadata map[string]any `json:"metadata,omitempty"`
	Buffers  [][]byte       `json:"buffers,omitempty"`
}

// Error is why a cell failed.
type Error struct {
	Name      string    `json:"ename"`
	Value     string    `json:"evalue"`
	Traceback []string  `json:"traceback"`
	Problems  []Problem `json:"problems,omitempty"` // places in the cell, for editors
}

// Problem is one located error. Lines and columns count from 1, columns in code points; End is the place after.
type Problem struct {
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	EndLine int    `json:"end_line,omitempty"`
	EndCol  int    `json:"end_col,omitempty"`
	Code    string `json:"code,omitempty"`
	Msg     string `json:"msg"`
	Help    string `json:"help,omitempty"`
}

// InputRequest asks the person at the front end for a line.
type InputRequest struct {
	Prompt   string `json:"prompt"`
	Password bool   `json:"password"`
}

// Var is one top-level variable after a cell.
type Var struct {
	Name  string `json:"name"`
	Type  string `json:"type"`            // Go type as a cell would write it
	Short string `json:"short"`           // one line, at most 120 code points
	Form  string `json:"form,omitempty"`  // "layout", "program", "type" or "array" when a pane can show it
	Text  string `json:"text,omitempty"`  // canonical text of a layout or program
	Fresh bool   `json:"fresh,omitempty"` // this cell set or changed it
}

// Vars lists all top-level variables after a cell, sorted by name.
type Vars struct {
	Vars []Var `json:"vars"`
}

// Explore asks the explorer page to show a value.
type Explore struct {
	Name string `json:"name,omitempty"` // variable or expression it came from
	Form string `json:"form"`           // as in Var; or "view", of which Text is a type and a layout
	Text string `json:"text"`
}

// Done ends a request. Status is "ok" or "error"; an Error event came before when it is "error".
type Done struct {
	Status  string  `json:"status"`
	Seconds float64 `json:"seconds"`
	Tainted bool    `json:"tainted,omitempty"` // a native call of the cell goes on after its interrupt
	Heap    uint64  `json:"heap,omitempty"`    // bytes of heap in use in the worker
	Pager   string  `json:"pager,omitempty"`   // text to show in the pager, from %help
}

// Completed lists what may replace the code points [Start, End) of the code.
type Completed struct {
	Matches []Match `json:"matches"`
	Start   int     `json:"start"`
	End     int     `json:"end"`
}

// Match is one completion.
type Match struct {
	Text string `json:"text"`
	Kind string `json:"kind"`          // "function", "method", "field", "variable", "constant", "type", "package", "keyword", "magic"
	Sig  string `json:"sig,omitempty"` // type or signature
}

// Inspected is what stands at a place of the code.
type Inspected struct {
	Found    bool   `json:"found"`
	Text     string `json:"text,omitempty"`
	Markdown string `json:"markdown,omitempty"`
}

// Completeness says whether code can run as it is: "complete", "incomplete", "invalid" or "unknown".
type Completeness struct {
	Status string `json:"status"`
	Indent string `json:"indent,omitempty"` // to put before the next line when incomplete
}
