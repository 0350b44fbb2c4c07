// An adapter of franz-go's kmsg for `kafkawire conformance`: it decodes bytes, and answers with what it encodes.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type question struct {
	Op, Message, Bytes string
	Version            int16
}
type message interface {
	MaxVersion() int16
	SetVersion(int16)
	ReadFrom([]byte) error
	AppendTo([]byte) []byte
}

func answer(q question, names map[string]int16) (found map[string]any) {
	defer func() {
		if r := recover(); r != nil {
			found = map[string]any{"error": fmt.Sprint("panic: ", r)}
		}
	}()
	name, isRequest := strings.CutSuffix(q.Message, "Request")
	key, known := names[strings.TrimSuffix(name, "Response")]
	var m message = kmsg.ResponseForKey(key)
	if isRequest {
		m = kmsg.RequestForKey(key)
	}
	if isResponse := strings.HasSuffix(name, "Response"); !known || q.Op != "decode" || q.Version > m.MaxVersion() || isRequest == isResponse {
		return map[string]any{"unsupported": true}
	}
	data, _ := hex.DecodeString(q.Bytes)
	m.SetVersion(q.Version)
	if err := m.ReadFrom(data); err != nil {
		return map[string]any{"error": err.Error()}
	}
	return map[string]any{"bytes": hex.EncodeToString(m.AppendTo(nil))}
}

func main() {
	names := map[string]int16{}
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		names[kmsg.NameForKey(key)] = key
	}
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for q := (question{}); in.Decode(&q) == nil; q = (question{}) {
		out.Encode(answer(q, names))
	}
}
