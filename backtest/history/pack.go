package history

import (
	"encoding/binary"
	"errors"
)

// Points are packed as differences: of times to the step before, and of amounts to the last one,
// each with a variable length. Regular usage takes three to five bytes a point, and any order of
// points can be packed.

// packer appends points to bytes.
type packer struct {
	at, step, amount int64
}

func (p *packer) pack(to []byte, point Point) []byte {
	step := point.At - p.at
	to = binary.AppendVarint(to, step-p.step)
	to = binary.AppendVarint(to, point.Amount-p.amount)
	p.at, p.step, p.amount = point.At, step, point.Amount
	return to
}

// errPacked is a fault of this package, or of the disk.
var errPacked = errors.New("the packed history is damaged")

// unpack appends the points in bytes.
func unpack(to []Point, from []byte) ([]Point, error) {
	var p packer
	for len(from) > 0 {
		step, n := binary.Varint(from)
		if n <= 0 {
			return to, errPacked
		}
		amount, m := binary.Varint(from[n:])
		if m <= 0 {
			return to, errPacked
		}
		from = from[n+m:]
		p.step += step
		p.at += p.step
		p.amount += amount
		to = append(to, Point{At: p.at, Amount: p.amount})
	}
	return to, nil
}
