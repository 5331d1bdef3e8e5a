// Command cel answers expressions about devices with k8s.io/dynamic-resource-allocation/cel: JSON lines in, JSON lines out.
//
// A line is {"expression", "devices": [{"driver", "device"}]}, a device as in a ResourceSlice. The answer is {"compile"},
// the text of a compile error, or {"answers"}: for each device its result or its error, and the cost. Where the compiler
// panics, the answer is {"panic"}.
// With -functions the program prints what the environment declares, one overload a line, and reads nothing.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/cel-go/checker"
	resourceapi "k8s.io/api/resource/v1"
	draapi "k8s.io/dynamic-resource-allocation/cel"
)

// Both are what kube-scheduler 1.37 compiles with: the first is on by default, the second off.
var features = draapi.Features{EnableConsumableCapacity: true}

type question struct {
	Expression string   `json:"expression"`
	Devices    []device `json:"devices"`
}

type device struct {
	Driver string             `json:"driver"`
	Device resourceapi.Device `json:"device"`
}

type answer struct {
	Compile string   `json:"compile,omitempty"`
	Answers []result `json:"answers,omitempty"`
	Panic   string   `json:"panic,omitempty"`
}

type result struct {
	Matches bool   `json:"matches"`
	Error   string `json:"error,omitempty"`
	Cost    uint64 `json:"cost"`
}

func main() {
	functions := flag.Bool("functions", false, "print the declarations of the environment")
	flag.Parse()
	if *functions {
		declarations()
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	reader, writer := bufio.NewReaderSize(in, 1<<20), bufio.NewWriterSize(out, 1<<20)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	cache := draapi.NewCache(10, features)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			var asked question
			if err := json.Unmarshal(line, &asked); err != nil {
				return err
			}
			if err := encoder.Encode(answered(cache, asked)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return writer.Flush()
		}
		if err != nil {
			return err
		}
	}
}

func answered(cache *draapi.Cache, asked question) (all answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			all = answer{Panic: fmt.Sprint(panicked)}
		}
	}()
	compiled := cache.GetOrCompile(asked.Expression)
	if compiled.Error != nil {
		return answer{Compile: compiled.Error.Error()}
	}
	for _, given := range asked.Devices {
		matches, details, err := compiled.DeviceMatches(context.Background(), draapi.Device{
			Driver:                   given.Driver,
			AllowMultipleAllocations: given.Device.AllowMultipleAllocations,
			Attributes:               given.Device.Attributes,
			Capacity:                 given.Device.Capacity,
		})
		one := result{Matches: matches}
		if err != nil {
			one.Error = draapi.EnhanceRuntimeError(err).Error()
		}
		if cost := details.ActualCost(); cost != nil {
			one.Cost = *cost
		}
		all.Answers = append(all.Answers, one)
	}
	return all
}

// declarations prints name, overload, member or not, arguments, result and whether errors are passed in.
func declarations() {
	compiled := draapi.GetCompiler(features).CompileCELExpression("true", draapi.Options{})
	declared := compiled.Environment.Functions()
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		for _, overload := range declared[name].OverloadDecls() {
			style := "f"
			if overload.IsMemberFunction() {
				style = "m"
			}
			var arguments []string
			for _, argument := range overload.ArgTypes() {
				arguments = append(arguments, checker.FormatCELType(argument))
			}
			fmt.Printf("%s|%s|%s|%s|%s\n", name, overload.ID(), style, strings.Join(arguments, ";"), checker.FormatCELType(overload.ResultType()))
		}
	}
	for _, variable := range compiled.Environment.Variables() {
		fmt.Printf("# %s: %s\n", variable.Name(), checker.FormatCELType(variable.Type()))
	}
	fmt.Printf("# macros:")
	for _, macro := range compiled.Environment.Macros() {
		fmt.Printf(" %s", macro.MacroKey())
	}
	fmt.Println()
}
