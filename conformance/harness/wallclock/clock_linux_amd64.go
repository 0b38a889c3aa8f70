package wallclock

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Clock is the wall clock of a process.
type Clock struct {
	pid    int
	offset int64 // address of the seconds that are added
}

// code is clock_gettime(edi clock, rsi *timespec), with the offset in seconds behind it.
var code = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, SYS_clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
	0x75, 0x0a, // jne to ret
	0x48, 0x8b, 0x0d, 0x06, 0x00, 0x00, 0x00, // mov rcx, [offset]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3,       // ret
	0x90, 0x90, // up to a multiple of 8
	0, 0, 0, 0, 0, 0, 0, 0, // the offset
}

// attempts to stop a process at a moment when none of its threads reads the clock.
const attempts = 100

// Of takes over the clock of a process that this one may trace, such as a child. The process must be
// running, and is stopped for a moment. One that has just started may have no vDSO yet, which is an error: os/exec returns before
// Linux has mapped it.
func Of(pid int) (*Clock, error) {
	from, to, err := mapped(pid)
	if err != nil {
		return nil, err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	image := make([]byte, to-from)
	if _, err := memory.ReadAt(image, from); err != nil {
		return nil, fmt.Errorf("reading the vDSO of process %d: %w", pid, err)
	}
	at, err := function(image)
	if err != nil {
		return nil, fmt.Errorf("the vDSO of process %d: %w", pid, err)
	}
	for range attempts {
		err = whileStopped(pid, from, to, func() error {
			_, err := memory.WriteAt(code, from+at)
			return err
		})
		if !errors.Is(err, errBusy) {
			break
		}
		time.Sleep(time.Millisecond) // let the process go on
	}
	if err != nil {
		return nil, fmt.Errorf("changing the vDSO of process %d: %w", pid, err)
	}
	return &Clock{pid: pid, offset: from + at + int64(len(code)) - 8}, nil
}

// Set makes the process's clock that of the machine plus a time in whole seconds, which may be
// negative.
func (c *Clock) Set(ahead time.Duration) error {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	_, err = memory.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(ahead/time.Second)), c.offset)
	return err
}

// mapped is where the vDSO of a process is.
func mapped(pid int) (from, to int64, err error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if strings.HasSuffix(lines.Text(), "[vdso]") {
			_, err := fmt.Sscanf(lines.Text(), "%x-%x", &from, &to)
			return from, to, err
		}
	}
	return 0, 0, errors.Join(lines.Err(), fmt.Errorf("process %d has no vDSO", pid))
}

// function is where clock_gettime begins in a vDSO.
func function(image []byte) (int64, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size >= uint64(len(code)) {
			return int64(s.Value), nil
		}
	}
	return 0, errors.New("it has no clock_gettime that is long enough")
}

var errBusy = errors.New("its threads read the clock all the time")

// whileStopped does something while the process is stopped and none of its threads is between two
// addresses, or is there in a system call.
func whileStopped(pid int, from, to int64, do func() error) (err error) {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)) }()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return err
	}
	for _, thread := range threads {
		at, err := counter(thread)
		if err != nil {
			return err
		}
		if from <= at && at < to {
			return errBusy
		}
	}
	return do()
}

// counter waits until a thread has stopped, and returns its program counter.
func counter(thread string) (int64, error) {
	for range 1000 {
		state, err := os.ReadFile(thread + "/syscall") // "number args… stack counter", or "running"
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(state))
		if len(fields) > 1 && stopped(thread) {
			return strconv.ParseInt(fields[len(fields)-1], 0, 64)
		}
		time.Sleep(time.Millisecond)
	}
	return 0, fmt.Errorf("%s does not stop", thread)
}

// stopped reports whether a thread is in state T.
func stopped(thread string) bool {
	stat, err := os.ReadFile(thread + "/stat")
	_, after, found := bytes.Cut(stat, []byte(") "))
	return err == nil && found && after[0] == 'T'
}
