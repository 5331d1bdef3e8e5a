package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// failure is what a request is refused with.
type failure struct {
	code    int
	reason  string
	message string
}

func refused(code int, reason, message string) *failure { return &failure{code, reason, message} }

func wantsProtobuf(request *http.Request) bool {
	return strings.HasPrefix(request.Header.Get("Accept"), protobufType)
}

func (f *failure) write(to http.ResponseWriter, request *http.Request) {
	writeObject(to, request, f.code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     int32(f.code),
		Reason:   metav1.StatusReason(f.reason),
		Message:  f.message,
	})
}

func writeObject(to http.ResponseWriter, request *http.Request, code int, one runtime.Object) {
	if wantsProtobuf(request) {
		writeBytes(to, code, protobufType, enveloped(one))
		return
	}
	body, err := json.Marshal(one)
	if err != nil {
		panic(err)
	}
	writeBytes(to, code, jsonType, body)
}

func writeStored(to http.ResponseWriter, request *http.Request, code int, one *object) {
	if wantsProtobuf(request) {
		writeBytes(to, code, protobufType, one.asProtobuf())
	} else {
		writeBytes(to, code, jsonType, one.asJSON())
	}
}

func writeBytes(to http.ResponseWriter, code int, mediaType string, body []byte) {
	to.Header().Set("Content-Type", mediaType)
	to.WriteHeader(code)
	_, _ = to.Write(body) // somebody who went away needs no answer
}

// success is the answer to every Binding.
var success = &metav1.Status{
	TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: 201,
}

// writeList puts a list together from its objects' bytes. In protobuf every list is its metadata (1) and items (2).
func writeList(to http.ResponseWriter, request *http.Request, k kind, objects []*object, meta metav1.ListMeta) {
	if wantsProtobuf(request) {
		head, err := meta.Marshal()
		if err != nil {
			panic(err)
		}
		var raw bytes.Buffer
		field(&raw, 1, head)
		for _, each := range objects {
			field(&raw, 2, each.message())
		}
		unknown := runtime.Unknown{
			TypeMeta: runtime.TypeMeta{APIVersion: k.GroupVersion().String(), Kind: k.Kind + "List"}, Raw: raw.Bytes(),
		}
		body, err := unknown.Marshal()
		if err != nil {
			panic(err)
		}
		writeBytes(to, 200, protobufType, append([]byte("k8s\x00"), body...))
		return
	}
	head, err := json.Marshal(meta)
	if err != nil {
		panic(err)
	}
	var body bytes.Buffer
	body.WriteString(`{"kind":"` + k.Kind + `List","apiVersion":"` + k.GroupVersion().String() + `","metadata":`)
	body.Write(head)
	body.WriteString(`,"items":[`)
	for i, each := range objects {
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(each.asJSON())
	}
	body.WriteString("]}\n")
	writeBytes(to, 200, jsonType, body.Bytes())
}

// field writes a length-delimited field of a protobuf message.
func field(to *bytes.Buffer, number byte, body []byte) {
	to.WriteByte(number<<3 | 2)
	to.Write(binary.AppendUvarint(nil, uint64(len(body))))
	to.Write(body)
}

// frame is one event of a watch.
func frame(what watch.EventType, one *object, inProtobuf bool) []byte {
	if !inProtobuf {
		body := one.asJSON()
		framed := make([]byte, 0, len(body)+40)
		framed = append(framed, `{"type":"`...)
		framed = append(framed, what...)
		framed = append(framed, `","object":`...)
		framed = append(framed, body...)
		return append(framed, '}', '\n')
	}
	event := metav1.WatchEvent{Type: string(what), Object: runtime.RawExtension{Raw: one.asProtobuf()}}
	body, err := event.Marshal()
	if err != nil {
		panic(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// bookmark is an object that says nothing but how far a watch has come.
func bookmark(k kind, version uint64, initialEventsEnd bool) *object {
	made, err := legacyscheme.Scheme.New(k.GroupVersionKind)
	if err != nil {
		panic(err)
	}
	one := made.(typed)
	one.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	one.SetResourceVersion(text(version))
	if initialEventsEnd {
		one.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return &object{typed: one}
}
