package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func signer(t testing.TB, key string) *Signer {
	s, err := NewSigner("hmac-sha256", key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSignature uses the HMAC of four parts computed with Python's hmac module.
func TestSignature(t *testing.T) {
	s := signer(t, "a-key")
	m := &Message{
		IDs: [][]byte{[]byte("topic")}, RawHeader: json.RawMessage(`{"msg_id":"1","msg_type":"x_request"}`),
		Content: json.RawMessage(`{"a":"é"}`), Buffers: [][]byte{{0, 1}},
	}
	parts, err := s.Parts(m)
	if err != nil {
		t.Fatal(err)
	}
	const want = "9e55780e72d41c325225e547e7fae145db7e91a35dff14ba02ee222d469e4f11"
	if string(parts[2]) != want {
		t.Errorf("signature %s, want %s", parts[2], want)
	}
	got, err := s.Parse(parts)
	if err != nil {
		t.Fatal(err)
	}
	if got.Header.MsgType != "x_request" || got.Header.MsgID != "1" || string(got.Content) != `{"a":"é"}` || string(got.Parent) != "{}" ||
		!bytes.Equal(got.Buffers[0], []byte{0, 1}) || string(got.IDs[0]) != "topic" {
		t.Errorf("parsed %+v", got)
	}
	for i := 3; i < 7; i++ {
		bad := append([][]byte{}, parts...)
		bad[i] = append(bytes.Clone(bad[i]), ' ')
		if _, err := s.Parse(bad); !errors.Is(err, ErrSignature) {
			t.Errorf("part %d changed: %v", i, err)
		}
	}
	if _, err := signer(t, "other").Parse(parts); !errors.Is(err, ErrSignature) {
		t.Errorf("other key: %v", err)
	}
	parts[2] = nil
	if _, err := s.Parse(parts); !errors.Is(err, ErrSignature) {
		t.Errorf("no signature: %v", err)
	}
	if _, err := signer(t, "").Parse(parts); err != nil {
		t.Errorf("without a key: %v", err)
	}
}

func TestMalformedMessages(t *testing.T) {
	for _, text := range []string{
		"", "a|b", "<IDS|MSG>", "<IDS|MSG>||{}|{}|{}", "<IDS|MSG>||{}|{}|{}|{}", `<IDS|MSG>||{"msg_type":1}|{}|{}|{}`,
		`<IDS|MSG>||{"msg_type":"x"}|[]|{}|{}`, `<IDS|MSG>||{"msg_type":"x"}|{}|{}|`, `<IDS|MSG>||{"msg_type":"x"}|{}|{}|{"a":}`,
		`<IDS|MSG>||null|{}|{}|{}`, "<IDS|MSG>||" + strings.Repeat("[", 20000) + "|{}|{}|{}",
	} {
		// The delimiter itself holds the separator.
		text = strings.ReplaceAll(text, "<IDS|MSG>", "<IDS\x00MSG>")
		var parts [][]byte
		for p := range strings.SplitSeq(text, "|") {
			parts = append(parts, []byte(strings.ReplaceAll(p, "\x00", "|")))
		}
		if m, err := signer(t, "").Parse(parts); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.60q: %+v, %v", text, m, err)
		}
	}
	if _, err := NewSigner("hmac-md5", "k"); err == nil {
		t.Error("hmac-md5 accepted")
	}
}

// FuzzParse feeds arbitrary parts to the parser, signed and unsigned; what it accepts
// must survive another round.
func FuzzParse(f *testing.F) {
	f.Add([]byte("<IDS|MSG>"), []byte(`{"msg_type":"x","msg_id":"1"}`), []byte("{}"), []byte("{}"), []byte(`{"code":"1"}`), []byte("buf"))
	f.Add([]byte("id"), []byte("<IDS|MSG>"), []byte(""), []byte("{}"), []byte(`{}`), []byte("{}"))
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g []byte) {
		s := signer(t, "")
		for _, parts := range [][][]byte{{a, b, c, d, e, g}, {a, delimiter, nil, b, c, d, e, g}, {delimiter, a, b, c, d, e}} {
			if _, err := signer(t, "key").Parse(parts); err == nil {
				t.Fatal("accepted without a signature")
			}
			m, err := s.Parse(parts)
			if err != nil {
				continue
			}
			out, err := s.Parts(m)
			if err != nil {
				t.Fatal(err)
			}
			again, err := s.Parse(out)
			if err != nil || again.Header != m.Header || !bytes.Equal(again.Content, m.Content) {
				t.Fatalf("%q became %q: %v", parts, out, err)
			}
		}
	})
}
