package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheAuditLogIsReadAsItGrowsAndWhenItMoves(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	tail := TailAudit(filepath.Join(dir, "kubeconfig"))
	t.Cleanup(func() { require.NoError(t, tail.Close()) })
	read := func() (names []string) {
		t.Helper()
		require.NoError(t, tail.Read(func(e AuditEvent) { names = append(names, fmt.Sprint(e.ObjectRef.Name, " ", e.ResponseStatus.Code)) }))
		return names
	}
	write := func(text string) {
		t.Helper()
		file, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = file.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	line := func(name string) string {
		return `{"verb":"create","objectRef":{"resource":"pods","subresource":"eviction","name":"` + name + `"},"responseStatus":{"code":201}}` + "\n"
	}
	require.Empty(t, read(), "there is no log yet")
	write(line("a") + line("b")[:20])
	require.Equal(t, []string{"a 201"}, read())
	write(line("b")[20:])
	require.Equal(t, []string{"b 201"}, read())
	require.Empty(t, read())

	write(line("c"))
	require.NoError(t, os.Rename(log, filepath.Join(dir, "audit-2026-01-31.log")))
	require.Equal(t, []string{"c 201"}, read(), "the next log has not started")
	write(line("d"))
	require.Equal(t, []string{"d 201"}, read())

	write("no event\n")
	require.ErrorContains(t, tail.Read(func(AuditEvent) {}), "reading a line of "+log)
}
