// The ports of servers: no process picks one that was picked before, and none is in the range of clients.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { freePort } from './free-port.ts'

const run = promisify(execFile)

test('a process picks no port twice, and none that a client may get', async () => {
  const ports = await Promise.all(Array.from({ length: 100 }, () => freePort()))
  expect(new Set(ports).size).toBe(100)
  for (const port of ports) {
    expect(port).toBeGreaterThanOrEqual(20_000)
    expect(port).toBeLessThan(32_768)
  }
})

test('of two processes, none picks a port that the other has picked and not opened yet', async () => {
  const program = `
    import { freePort } from ${JSON.stringify(new URL('free-port.ts', import.meta.url).href)}
    // As if both began at the same range.
    Math.random = () => 0.5
    const ports = []
    while (ports.length < 80) ports.push(await freePort())
    console.log(ports.join())
    // So that both hold their ranges at the same time.
    await new Promise(resolve => process.stdin.on('data', resolve).on('end', resolve))
    process.stdin.destroy()`
  const pickers = [1, 2].map(() => run(process.execPath, ['--input-type=module', '-e', program]))
  await Promise.all(pickers.map(({ child }) => new Promise(resolve => child.stdout!.once('data', resolve))))
  for (const { child } of pickers) child.stdin!.end()
  const ports = (await Promise.all(pickers)).flatMap(({ stdout }) => stdout.trim().split(','))
  expect(new Set(ports).size).toBe(160)
})
