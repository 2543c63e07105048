// `npm run demo`: it shows its platform killed under load, and ends with the verdict; on a running platform it disturbs nothing.

import { execFile, spawn } from 'node:child_process'
import { channel } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { openFleet } from '../../bin/demo/fleet.ts'
import { type OwnPlatform, openOwnPlatform } from '../../bin/demo/own-platform.ts'
import { chart, openScreen } from '../../bin/demo/screen.ts'
import { show } from '../../bin/demo/show.ts'
import { openEmbedded } from '../../database/embedded/embedded.ts'
import { databaseFolder } from '../../roles/folder-database.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { root } from '../tidy/files.ts'
import { startedFolder, startPlatform } from '../up/platform.ts'

async function demo(
  words: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<{ code: unknown; printed: string }> {
  const options = { cwd: root, env: { ...process.env, ...environment } }
  const run = promisify(execFile)(process.execPath, ['bin/demo.ts', ...words], options)
  return run.then(
    ({ stdout, stderr }) => ({ code: 0, printed: stdout + stderr }),
    (error: { code: unknown; stdout: string; stderr: string }) => ({ code: error.code, printed: error.stdout + error.stderr }),
  )
}

const verdict = (printed: string): string[] => printed.split('\n').filter(line => /^(holds |BROKEN) {2}/.test(line))

test('the demo kills its own platform under load, and everything holds; it shows no key, and leaves nothing', async () => {
  const folder = temporaryFolder()
  // Options of a platform of the user do not reach its own.
  const { code, printed } = await demo(['--seconds', '4'], { TMPDIR: folder, SVC_HTTP_PORT: 'none' })
  expect([code, printed]).toEqual([0, expect.stringContaining('kill -9')])
  expect(printed).toMatch(/is dead letter 1-0-\d+: .*\(rule one-value\)/)
  expect(printed).toMatch(/^ok: \d+ messages in 1 partition, with every column of their rows, 0 more in flight$/m)
  expect(verdict(printed)).toEqual(Array(3).fill(expect.stringMatching(/^holds /)))
  const [, acknowledged] = /([\d,]+) acknowledged messages are read back, each once: 0 missing, 0 too many$/m.exec(printed)!
  expect(Number(acknowledged!.replaceAll(',', ''))).toBeGreaterThan(100)
  expect(printed).not.toMatch(/Bearer|Thing |eyJ|password|[0-9a-f]{8}-[0-9a-f]{4}/i)
  expect(await readdir(folder)).toEqual([])
})

test('a terminal that is closed ends the demo and its platform, and leaves nothing', async () => {
  const folder = temporaryFolder()
  const child = spawn(process.execPath, ['bin/demo.ts'], { cwd: root, env: { ...process.env, TMPDIR: folder }, stdio: 'pipe' })
  const ended = once(child, 'close')
  child.stdout.setEncoding('utf8')
  for await (const text of child.stdout as AsyncIterable<string>) if (text.includes('devices publish')) child.kill('SIGHUP')
  expect(await ended).toEqual([1, null])
  expect(await readdir(folder)).toEqual([])
})

test('a message is sent again if it may have arrived, and not if nothing listened', async () => {
  let statuses: number[] = []
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, 'http://platform')
    const isMessage = request.method === 'POST' && pathname.endsWith('/messages')
    const things = Array.from({ length: 40 }, (_, nth) => ({ id: `${nth}`, name: `demo-${nth}`, key: 'key' }))
    response.writeHead((isMessage ? statuses.shift() : undefined) ?? 200, { connection: 'close' })
    response.end(JSON.stringify({ channels: [{ id: 'channel' }], things }))
  })
  const listen = async (port: number): Promise<void> => void (await once(server.listen(port, '127.0.0.1'), 'listening'))
  await listen(0)
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const fleet = await openFleet(`http://127.0.0.1:${port}`, { authorization: 'Bearer token' })

  await once(server.close(), 'close')
  const refused = Promise.withResolvers<unknown>()
  const refusals = channel('undici:client:connectError')
  refusals.subscribe(refused.resolve)
  onTestFinished(() => refusals.unsubscribe(refused.resolve))
  const publishing = fleet.publishAndRead()
  await refused.promise
  await listen(port)
  await publishing
  expect(fleet.sentAgain()).toBe(0)

  statuses = [503]
  await fleet.publishAndRead()
  expect(fleet.sentAgain()).toBe(1)
})

/** Its store has lost a row when it starts again. */
function losing(platform: OwnPlatform): OwnPlatform {
  return {
    ...platform,
    async start() {
      const database = await openEmbedded({ folder: join(platform.data, databaseFolder) })
      const lost = await database.query('DELETE FROM sluice.records WHERE ctid = (SELECT min(ctid) FROM sluice.records) RETURNING position')
      await database.close()
      expect(lost).toHaveLength(1)
      await platform.start()
    },
  }
}

test('a store that has lost a row is found by reading back, and by verify', async () => {
  const own = openOwnPlatform()
  onTestFinished(own.close)
  await own.start()
  let printed = ''
  const screen = openScreen({ write: text => (printed += text) })
  expect(await show(own.url, await own.signIn(), losing(own), 2, screen)).toBe(false)
  expect(printed).toMatch(/WRONG +missing 1/)
  expect(verdict(printed).map(line => line.slice(0, 6))).toEqual(['BROKEN', 'BROKEN', 'holds '])
  expect(printed).toContain(': 1 missing, 0 too many')
})

test('with --url a running platform is used, and nothing is killed or faulty', async () => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path })
  const { code, printed } = await demo(['--url', platform.url, '--seconds', '2'])
  expect([code, verdict(printed)]).toEqual([0, [expect.stringMatching(/^holds .* 0 missing, 0 too many$/)]])
  expect(printed).not.toMatch(/kill|is dead letter/)
  expect(await platform.stop()).toBe(0)
  expect(await demo(['--url', platform.url])).toEqual({ code: 1, printed: expect.stringMatching(/^no platform answers at \S+: start it/) })
})

test.each([
  [['--seconds', '1'], /^--seconds takes a number from 2 to 600$/m],
  [['--url', 'localhost:8080'], /^--url takes an address/m],
  [['--packs', '2'], /^Unknown option '--packs'/m],
])('%j ends with 1 and a sentence', async (words, sentence) => {
  expect(await demo(words)).toEqual({ code: 1, printed: expect.stringMatching(sentence) })
})

test('on a terminal the block below the lines is drawn again, and no line wraps', () => {
  let printed = ''
  const screen = openScreen({ columns: 10, write: text => (printed += text) })
  screen.draw(['one', 'much longer than that'])
  screen.say('an event')
  screen.draw([])
  expect(printed).toBe('one\nmuch long\n\u001b[2A\u001b[Jan event\none\nmuch long\n\u001b[2A\u001b[J')
  expect(chart([0, 1, 50, 100], 100)).toBe(' ▁▄█')
})
