// The fast decoder for plain packs: when it is used, and that it always agrees with the slow one.

import { expect, test, vi } from 'vitest'
import { outcomeOf } from './rows.ts'

test('a plain pack is decoded without JSON.parse, with every label', () => {
  const parse = vi.spyOn(JSON, 'parse')
  try {
    const pack =
      '[ {"bn":"m:","bt":1600000000.5,"bu":"A","bv":1,"bs":-2.5e1,"bver":10,"n":"a","u":"V","v":1,"s":3,"t":-1,"ut":0.1},\n{"n":"b","vs":"x y"},{"n":"c","vb":true},{"n":"d","vb":false},{"n":"e","vd":"AQ"}]'
    expect(outcomeOf(Buffer.from(pack))).toHaveLength(5)
    expect(parse).not.toHaveBeenCalled()
  } finally {
    parse.mockRestore()
  }
})

test('both decoders agree on every change of one byte of a plain pack', () => {
  const pack = Buffer.from('[{"bn":"a","v":-1.5e1},{"bver":10,"u":"V","vb":true},{"vd":"AQ","ut":0}]')
  const others = Array.from('[]{},:"\\-+.eE019 \nabnuvtsdrx_\0\x7f\x80', character => character.charCodeAt(0))
  const byteOrderMark = [0xef, 0xbb, 0xbf]
  for (let at = 0; at <= pack.length; at++) {
    const [before, after] = [pack.subarray(0, at), pack.subarray(at)]
    for (const changed of [
      [...before, ...after.subarray(1)],
      ...others.flatMap(other => [
        [...before, other, ...after],
        [...before, other, ...after.subarray(1)],
      ]),
    ]) {
      const short = outcomeOf(Uint8Array.from(changed))
      const long = outcomeOf(Uint8Array.from([...byteOrderMark, ...changed]))
      if (JSON.stringify(short) !== JSON.stringify(long)) expect.soft(short, Buffer.from(changed).toString()).toEqual(long)
    }
  }
})
