// Long output: bounded in memory, complete, and ended when its reader closes.

import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { ToolError, writeLines } from '../../bin/streams.ts'

async function* lines(count: number, onLine: (at: number) => void = () => undefined): AsyncGenerator<string> {
  for (let at = 0; at < count; at++) {
    onLine(at)
    yield `${at}\n`
  }
}

test('lines are requested as fast as they are read, and all are written', async () => {
  let [made, aheadMax, taken] = [0, 0, 0]
  const output = new Writable({
    write(_line, _encoding, done) {
      taken++
      aheadMax = Math.max(aheadMax, made - taken)
      setImmediate(done)
    },
    highWaterMark: 16,
    decodeStrings: false,
  })
  await writeLines(
    lines(3000, () => void made++),
    output,
  )
  expect(taken).toBe(3000)
  expect(aheadMax).toBeLessThan(100)
  expect(output.writableEnded).toBe(false)
})

function failing(code: string): Writable {
  return new Writable({ write: (_line, _encoding, done) => done(Object.assign(new Error(code), { code })) })
}

test('a reader that closes its pipe ends it, and a full disk is a clear error', async () => {
  await writeLines(lines(3000), failing('EPIPE'))
  await expect(writeLines(lines(3000), failing('ENOSPC'))).rejects.toThrow(/standard output cannot be written \(ENOSPC\)/)
  await expect(writeLines(lines(3000), failing('ENOSPC'))).rejects.toThrow(ToolError)
})

test('an error while creating lines is thrown', async () => {
  const broken = lines(10, at => {
    if (at === 5) throw new RangeError('no more')
  })
  await expect(writeLines(broken, new Writable({ write: (_line, _encoding, done) => done() }))).rejects.toThrow(RangeError)
})
