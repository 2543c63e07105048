// A frozen server must not answer any more: its other threads run for a while after the signal, longer on a busy machine.

import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { keep } from './keeper.ts'

const busyThreads = `
const { Worker, isMainThread } = require('node:worker_threads')
if (isMainThread) {
  for (let left = 8; left > 0; left--) new Worker(__filename)
  console.error('ready')
}
for (;;);
`

test('a frozen server has stopped in all of its threads', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'keeper-'))
  const program = join(folder, 'busy.cjs')
  await writeFile(program, busyThreads)
  const server = await keep([process.execPath, program], { folder, isReady: line => line === 'ready' })
  try {
    for (let left = 20; left > 0; left--) {
      server.signal('STOP')
      expect(await threadStates(server.pid)).toEqual(new Set(['T']))
      server.signal('CONT')
    }
  } finally {
    await server.end('KILL')
    await rm(folder, { recursive: true, force: true })
  }
})

async function threadStates(pid: number): Promise<Set<string>> {
  const threads = await readdir(`/proc/${pid}/task`)
  const states = await Promise.all(threads.map(thread => readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8')))
  return new Set(states.map(line => line.slice(line.lastIndexOf(')') + 2, line.lastIndexOf(')') + 3)))
}
