// The embedded database when its process is killed during a COPY, and when its disk is full.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { afterEach, expect, test } from 'vitest'
import { checkIntegrity, openEmbedded } from '../../database/embedded/embedded.ts'
import { type EmbeddedFolder, embeddedFolder } from '../servers/embedded.ts'

const child = new URL('./crash-child.ts', import.meta.url).pathname
let folder: EmbeddedFolder
afterEach(() => folder.remove())

async function prepare(): Promise<void> {
  folder = await embeddedFolder()
  const database = await openEmbedded({ folder: folder.path })
  await database.execute('CREATE TABLE batches (id int4 PRIMARY KEY); CREATE TABLE rows (id int4, name text); CREATE INDEX ON rows (id)')
  await database.close()
}

async function* eventsOf(process: ChildProcess): AsyncGenerator<Record<string, unknown>> {
  for await (const line of createInterface({ input: process.stdout! })) yield JSON.parse(line) as Record<string, unknown>
}

test('killed during a COPY, it has everything that was committed and nothing else', async () => {
  await prepare()
  const writer = spawn(process.execPath, [child, folder.path, 'copy'], { stdio: ['ignore', 'pipe', 'inherit'] })
  let committed = -1
  for await (const event of eventsOf(writer)) {
    if (typeof event['committed'] === 'number') committed = event['committed']
    if (event['copying'] === 2 && event['nth'] === 1) writer.kill('SIGKILL')
  }
  expect(committed).toBe(1)

  const database = await openEmbedded({ folder: folder.path })
  expect(await database.query('SELECT id FROM batches ORDER BY id')).toEqual([{ id: 0 }, { id: 1 }])
  expect(await database.query('SELECT count(*) FROM rows')).toEqual([{ count: 400_000n }])
  await database.execute('DELETE FROM rows WHERE id >= 1000')
  await checkIntegrity(database)
  await database.close()
})

test('a full disk under the write-ahead log is a transient error, and the process can store again when there is space', async () => {
  await prepare()
  // Files of at most 8 MB: log files, of 16 MB, can no longer be created. The signal for that is ignored, so that a write fails.
  const script = `trap '' XFSZ; ulimit -S -f 16384; exec "$0" "$@"`
  const writer = spawn('sh', ['-c', script, process.execPath, child, folder.path, 'fill'], { stdio: ['pipe', 'pipe', 'inherit'] })
  const events: Record<string, unknown>[] = []
  for await (const event of eventsOf(writer)) {
    events.push(event)
    if ('again' in event) {
      execFileSync('prlimit', [`--pid=${writer.pid}`, '--fsize=unlimited'])
      writer.stdin.write('there is room\n')
    }
  }
  const [stopped, again, recovered, closed] = events
  expect(stopped).toMatchObject({ sqlState: '53100' })
  expect(stopped?.['message']).toMatch(/is full: free some space \(could not write/)
  expect(again).toEqual({ again: expect.stringMatching(/answered|53100/) as string })
  const ids = recovered?.['recovered'] as number[]
  expect(ids.length).toBeGreaterThanOrEqual(Number(stopped?.['stopped']))
  expect(ids).toEqual(ids.map((_, at) => at))
  expect(closed).toEqual({ closed: true })
  if (writer.exitCode === null) await once(writer, 'exit')
  expect(writer.exitCode).toBe(0)

  const database = await openEmbedded({ folder: folder.path })
  expect(await database.query('SELECT id FROM batches WHERE id = 1000')).toEqual([{ id: 1000 }])
  await checkIntegrity(database)
  await database.close()
})
