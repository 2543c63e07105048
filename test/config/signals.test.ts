// Stopping by signals, with real processes.

import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from 'vitest'

const script = fileURLToPath(new URL('signals-process.ts', import.meta.url))
const children: ChildProcess[] = []

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

async function start(behaviour: 'drains' | 'hangs') {
  const child = spawn(process.execPath, [script, behaviour], { stdio: ['ignore', 'pipe', 'inherit'] })
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
  child.kill('SIGINT')
  await seen('stopping')
  child.kill('SIGINT')
  const early = await Promise.race([ended, new Promise(resolve => setTimeout(resolve, 550, 'alive'))])
  expect(early).toBe('alive')
  child.kill('SIGINT')
  expect(await ended).toBe(130)
  expect(output()).not.toContain('too slow')
})

test('a process that does not drain in time is ended with 1', async () => {
  const { child, ended, output } = await start('hangs')
  child.kill('SIGTERM')
  expect(await ended).toBe(1)
  expect(output()).toContain('too slow')
})
