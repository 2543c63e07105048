// GET /internal/changes: what followers receive, from which instance, and what happens to those that fall behind.

import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { accessChangesChannel, openAccessChanges } from '../../../control-plane/access-changes.ts'
import type { AccessChange } from '../../../control-plane/client.ts'
import type { UserId } from '../../../control-plane/ids.ts'
import { openRelationalPolicies } from '../../../control-plane/policies/relational.ts'
import { openPasswords } from '../../../control-plane/users/passwords.ts'
import { openUsers, type Users } from '../../../control-plane/users/store.ts'
import { openTokenVersions } from '../../../control-plane/users/token-versions.ts'
import { itself } from '../../../control-plane/writes.ts'
import type { Database } from '../../../database/database.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { openProxy } from '../../servers/process/proxy.ts'
import { call, expectStatus, makeSite } from '../../up/operator.ts'
import { recordingLogger, writesOn } from '../platform.ts'
import { openInstance, token } from './instance.ts'

type Line = { type: 'beat' | 'change'; sequence: number; change?: AccessChange }

/** Follows like a client, line by line; ends with the stream. */
async function* follow(internalUrl: string, signal?: AbortSignal): AsyncGenerator<Line> {
  const headers = { authorization: `Bearer ${token}` }
  const response = await fetch(`${internalUrl}/internal/changes`, { headers, ...(signal === undefined ? {} : { signal }) })
  if (response.status !== 200) throw new Error(String(response.status))
  expect(response.headers.get('content-type')).toBe('application/x-ndjson')
  let rest = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    const texts = (rest + chunk).split('\n')
    rest = texts.pop()!
    for (const text of texts) yield JSON.parse(text) as Line
  }
}

async function untilEnd(lines: AsyncGenerator<Line>): Promise<void> {
  while ((await lines.next()).done !== true);
}

/** The next line that is a change and not a beat. */
async function nextChange(lines: AsyncGenerator<Line>): Promise<Line> {
  for (;;) {
    const { value } = (await lines.next()) as { value: Line }
    if (value.type === 'change') return value
  }
}

const notify = `SELECT pg_notify($1, json_build_object('kind', 'thing', 'thing', gen_random_uuid())::text) FROM generate_series(1, $2::int4)`

describeWithOwnPostgres('changes', postgres => {
  test('a stream begins with a beat, has one each second, and its numbers increase with each change', async () => {
    const { platform, internalUrl } = await openInstance(await postgres.createDatabase())
    const lines = follow(internalUrl)
    expect((await lines.next()).value).toEqual({ type: 'beat', sequence: 0 })
    const startedMs = performance.now()
    expect((await lines.next()).value).toEqual({ type: 'beat', sequence: 0 })
    expect((await lines.next()).value).toEqual({ type: 'beat', sequence: 0 })
    expect(performance.now() - startedMs).toBeGreaterThan(900)
    // On a busy machine each may be late.
    expect(performance.now() - startedMs).toBeLessThan(30_000)

    const { owner, channel, thing } = await makeSite(platform.url)
    await expectStatus(call(platform.url, 'DELETE', `/channels/${channel}/things/${thing}`, { authorization: owner }), 204)
    expect(await nextChange(lines)).toEqual({ type: 'change', sequence: 1, change: { kind: 'disconnected', thing, channel } })
    expect((await lines.next()).value).toEqual({ type: 'beat', sequence: 1 })
    // A later follower begins where the others are.
    const late = follow(internalUrl)
    expect((await late.next()).value).toEqual({ type: 'beat', sequence: 1 })
    await Promise.all([lines.return(undefined), late.return(undefined)])
  })

  test('every instance on the database sends a change once, whichever made it, and a refused one is not sent', async () => {
    const database = await postgres.createDatabase()
    const [first, second] = await Promise.all([openInstance(database), openInstance(database)])
    const streams = [follow(first.internalUrl), follow(second.internalUrl)]
    for (const lines of streams) await lines.next()
    const { owner, channel, thing } = await makeSite(first.platform.url)
    const foreign = await makeSite(second.platform.url)

    const disconnect = `/channels/${channel}/things/${thing}`
    expect((await call(second.platform.url, 'DELETE', disconnect, { authorization: foreign.owner })).status).toBe(403)
    await expectStatus(call(second.platform.url, 'DELETE', disconnect, { authorization: owner }), 204)
    const user = JSON.parse(Buffer.from(foreign.owner.split('.')[1]!, 'base64url').toString()).sub as string
    await usersOf(first.platform.database).changePassword(itself, user as UserId, 'another horse battery')
    for (const lines of streams) {
      expect(await nextChange(lines)).toEqual({ type: 'change', sequence: 1, change: { kind: 'disconnected', thing, channel } })
      expect(await nextChange(lines)).toEqual({ type: 'change', sequence: 2, change: { kind: 'user', user } })
      expect((await lines.next()).value).toEqual({ type: 'beat', sequence: 2 })
      await lines.return(undefined)
    }
  })

  test('a follower that does not read is cut off, and the others still receive every change', async () => {
    const { platform, internalUrl, port } = await openInstance(await postgres.createDatabase())
    const slow = connect({ port, host: '127.0.0.1' })
    slow.write(`GET /internal/changes HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`)
    await once(slow, 'readable')
    slow.pause()
    const cut = once(slow, 'close')
    slow.on('error', () => undefined)
    const lines = follow(internalUrl)
    await lines.next()

    // 12 MB of lines, which is more than the system buffers for a connection of loopback.
    const [bursts, burst] = [50, 2_000]
    for (let sequence = 1; sequence <= bursts * burst; sequence++) {
      if (sequence % burst === 1) await platform.database.query(notify, [accessChangesChannel, burst])
      const line = await nextChange(lines)
      if (line.sequence !== sequence) throw new Error(`${line.sequence} came in place of ${sequence}`)
    }
    await lines.return(undefined)
    let bytes = 0
    slow.on('data', (chunk: Buffer) => {
      bytes += chunk.length
    })
    slow.resume()
    await cut
    expect(bytes).toBeLessThan(9_000_000)
  })

  test('when the connection for notifications is lost, followers are cut off, and can follow again when it is back', async () => {
    const { platform, internalUrl, logged } = await openInstance(await postgres.createDatabase())
    const lines = follow(internalUrl)
    await lines.next()
    const ended = untilEnd(lines)
    await platform.database.query(
      `SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE application_name = 'sluice-test-notifications'`,
    )
    await ended
    expect(logged()).toContain('PostgreSQL is away')
    const again = await untilFollowed(internalUrl)
    expect((await again.next()).value).toMatchObject({ type: 'beat' })
    await again.return(undefined)
    expect(logged()).toContain('PostgreSQL is back')
  })

  test('the feed takes no followers while the connection is silent, which is detected by the missing beats', async () => {
    const database = new URL(await postgres.createDatabase())
    const proxy = await openProxy({ port: Number(database.port) })
    const behind = new URL(database)
    behind.port = String(proxy.port)
    const { feed, internalUrl } = await openInstance(database.href, { notificationsUrl: behind.href, answerMsMax: 2_000 })
    const lines = await untilFollowed(internalUrl)
    await lines.next()
    proxy.halfOpen()
    // Without the time limit it would never end.
    await untilEnd(lines)
    await expect.poll(() => feed.check().then(() => 'whole', String)).toContain('changes of other instances are not received')
    const { status, headers } = await call(internalUrl, 'GET', '/internal/changes', { authorization: `Bearer ${token}` })
    expect([status, headers.get('retry-after')]).toEqual([503, '1'])
    await proxy.heal()
    await (await untilFollowed(internalUrl)).return(undefined)
    await proxy.close()
  })

  test.each([
    ['of an unknown kind', '{"kind":"planet","planet":"x"}'],
    ['that is not JSON', '{'],
    ['without its thing', '{"kind":"thing"}'],
  ])('a notification %s cuts off followers, since it is unknown which access it ends', async (_name, payload) => {
    const { platform, internalUrl } = await openInstance(await postgres.createDatabase())
    const lines = follow(internalUrl)
    await lines.next()
    await platform.database.query('SELECT pg_notify($1, $2)::text', [accessChangesChannel, payload])
    for await (const line of lines) expect(line.type).toBe('beat')
  })

  test('HEAD does not follow, and a follower that disconnects is removed', async () => {
    const { internalUrl, app } = await openInstance(await postgres.createDatabase())
    expect((await call(internalUrl, 'HEAD', '/internal/changes', { authorization: `Bearer ${token}` })).status).toBe(405)
    for (let round = 0; round < 300; round++) {
      const leaving = new AbortController()
      const lines = follow(internalUrl, leaving.signal)
      await lines.next()
      leaving.abort()
      await lines.next().catch(() => undefined)
    }
    const lines = follow(internalUrl)
    expect((await lines.next()).value).toMatchObject({ type: 'beat' })
    const ended = untilEnd(lines)
    await app.close()
    await ended
  })
})

/** The users as an instance on the database has them. */
function usersOf(database: Database): Users {
  return openUsers({
    database,
    policies: openRelationalPolicies(database),
    writes: writesOn(database, openAccessChanges(recordingLogger().logger, { shared: true })),
    passwords: openPasswords(),
    versions: openTokenVersions(database),
  })
}

/** The stream once it can be followed again; retries until then. */
async function untilFollowed(internalUrl: string): Promise<AsyncGenerator<Line>> {
  for (;;) {
    const { status } = await fetch(`${internalUrl}/internal/changes`, { headers: { authorization: `Bearer ${token}` } }).then(
      async response => {
        await response.body?.cancel()
        return response
      },
    )
    if (status === 200) return follow(internalUrl)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}
