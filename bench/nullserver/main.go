// Command nullserver is an API server that does as little as one can: it lists, watches, and takes what is written, in
// memory, without validation, admission, authorization or etcd. Beside it one sees what a scheduler can do by itself.
//
// It speaks JSON and protobuf, HTTP/1.1 and HTTP/2, lists with pages, and watches with initial events. Events are
// counted by namespace and forgotten.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	certificate := flag.String("certificate", "", "file for the certificate, which is made anew")
	flag.Parse()
	if err := serve(*address, *certificate); err != nil {
		log.Fatal(err)
	}
}

func serve(address, certificate string) error {
	pair, pemBytes, err := selfSigned()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	partial := certificate + ".partial"
	if err := os.WriteFile(partial, pemBytes, 0o600); err != nil {
		return err
	}
	if err := os.Rename(partial, certificate); err != nil {
		return err
	}
	server := &http.Server{
		Handler:   &handler{store: newStore()},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	return server.ServeTLS(listener, "", "")
}

func selfSigned() (tls.Certificate, []byte, error) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "nullserver"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:              []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pair := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: secret}
	return pair, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
