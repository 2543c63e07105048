// A process that is killed during an append loses nothing that it acknowledged.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'
import { makeFolder, openLogIn, readAll } from './folder.ts'

/** Starts an appender, kills it after this many acknowledgements, and returns them: offset and payload. */
async function killedAfter(folder: string, name: string, count: number): Promise<Map<number, string>> {
  const child = spawn(process.execPath, [new URL('./appender.ts', import.meta.url).pathname, folder, name], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  const acknowledged = new Map<number, string>()
  for await (const line of createInterface({ input: child.stdout })) {
    const [offset, payload] = line.split(' ')
    acknowledged.set(Number(offset), payload!)
    if (acknowledged.size === count) child.kill('SIGKILL')
  }
  await ended
  return acknowledged
}

test('after SIGKILL during an append every acknowledged message is at its offset, offsets are contiguous and no message is stored twice', async () => {
  const folder = makeFolder()
  try {
    const acknowledged = new Map<number, string>()
    for (const [name, count] of [
      ['first', 100],
      ['second', 1000],
      ['third', 2500],
    ] as const) {
      const told = await killedAfter(folder.path, name, count)
      expect(told.size).toBeGreaterThanOrEqual(count)
      for (const [offset, payload] of told) {
        expect(acknowledged.has(offset)).toBe(false)
        acknowledged.set(offset, payload)
      }
    }
    const log = openLogIn(folder.path)
    const stored = readAll(log).map(({ offset, message }) => [offset, new TextDecoder().decode(message.payload)] as const)
    await log.close()
    expect(stored.map(([offset]) => offset)).toEqual(stored.map((_, at) => at))
    expect(new Set(stored.map(([, payload]) => payload)).size).toBe(stored.length)
    const byOffset = new Map(stored)
    for (const [offset, payload] of acknowledged) expect(byOffset.get(offset)).toBe(payload)
    // Messages in flight at the kill may be stored too: sixteen at a time.
    expect(stored.length - acknowledged.size).toBeLessThanOrEqual(3 * 32)
  } finally {
    folder.remove()
  }
})
