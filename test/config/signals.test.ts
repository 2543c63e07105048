// Stopping by signals, with real processes.

import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from 'vitest'

const script = fileURLToPath(new URL('signals-process.ts', import.meta.url))
const children: ChildProcess[] = []

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

/** @param deadlineMs by default so long that a test cannot reach it. The process sees the time advance by 300 ms from one look at it to the next. */
async function start(behaviour: 'drains' | 'hangs', deadlineMs = 3_600_000) {
  const child = spawn(process.execPath, [script, behaviour, String(deadlineMs), '300'], { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  let output = ''
  const seen = (text: string) =>
    new Promise<void>(resolve => {
      const look = () => (output.includes(text) ? resolve() : child.stdout.once('data', () => setImmediate(look)))
      look()
    })
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  const ended = new Promise<number | null>(resolve => child.on('close', resolve))
  await seen('ready')
  return { child, ended, seen, output: () => output }
}

test.each(['SIGTERM', 'SIGINT'] as const)('%s aborts, and a process that drains ends with 0', async signal => {
  const { child, ended, output } = await start('drains')
  child.kill(signal)
  expect(await ended).toBe(0)
  expect(output()).toContain(`stopping on ${signal}`)
})

test.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('another signal, %s, ends it immediately with %i', async (second, code) => {
  const { child, ended, seen } = await start('hangs')
  child.kill(second === 'SIGINT' ? 'SIGTERM' : 'SIGINT')
  await seen('stopping')
  child.kill(second)
  expect(await ended).toBe(code)
})

test('the same signal within half a second counts once, later it is a second one', async () => {
  const { child, ended, seen, output } = await start('hangs')
  for (const look of ['it is 300', 'it is 600']) {
    child.kill('SIGINT')
    await seen(look)
  }
  child.kill('SIGINT')
  expect(await ended).toBe(130)
  expect(output()).toContain('it is 900')
})

test('a process that does not drain in time is ended with 1', async () => {
  const { child, ended, output } = await start('hangs', 100)
  child.kill('SIGTERM')
  expect(await ended).toBe(1)
  expect(output()).toContain('too slow')
})
