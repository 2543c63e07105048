// Notifications: in order, confirmed by beats, and a report when some may have been missed.

import { setImmediate as immediate } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openNotifications } from '../../database/notifications.ts'
import { openServer } from '../../database/server.ts'
import { describeWithOwnPostgres } from '../servers/postgres.ts'
import { freePort } from '../servers/process/free-port.ts'
import { openProxy, type Proxy } from '../servers/process/proxy.ts'

interface Heard {
  /** The calls in order: `beat`, `lost`, or a message. */
  readonly events: string[]
  readonly errors: Error[]
  /** Resolves after `count` events of this name. */
  until(name: string, count?: number): Promise<void>
  /** Resolves after another event of this name. */
  untilNext(name: string): Promise<void>
  close(): Promise<void>
}

/** Patient, because most tests are not about time limits. */
function listen(url: string, { beatMs = 50, answerMsMax = 60_000 } = {}): Heard {
  const events: string[] = []
  const errors: Error[] = []
  const waiting = new Set<() => void>()
  const note = (event: string): void => {
    events.push(event)
    for (const look of waiting) look()
  }
  const notifications = openNotifications(
    { url, applicationName: 'sluice-test-listener', channel: 'a "channel"', beatMs, answerMsMax },
    {
      onMessage: note,
      onBeat: () => note('beat'),
      onLost(error) {
        errors.push(error)
        note('lost')
      },
    },
  )
  onTestFinished(() => notifications.close())
  const countOf = (name: string): number => events.filter(event => event === name).length
  const until = (name: string, count = 1): Promise<void> =>
    new Promise(resolve => {
      const look = (): void => {
        if (countOf(name) < count) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })
  return {
    events,
    errors,
    until,
    untilNext: name => until(name, countOf(name) + 1),
    close: () => notifications.close(),
  }
}

async function proxied(url: string): Promise<{ proxy: Proxy; url: string }> {
  const behind = new URL(url)
  const proxy = await openProxy({ port: Number(behind.port) })
  onTestFinished(() => proxy.close())
  behind.port = String(proxy.port)
  return { proxy, url: behind.href }
}

describeWithOwnPostgres('notifications', postgres => {
  async function openDatabase(url: string) {
    const database = await openServer({ url, applicationName: 'sluice-test', connectionsMax: 2 })
    onTestFinished(() => database.close())
    return database
  }
  const notify = 'SELECT pg_notify($1, $2)::text'

  test('messages arrive in the order of their commits, none of a rollback and none of another channel', async () => {
    const url = await postgres.createDatabase()
    const database = await openDatabase(url)
    const heard = listen(url)
    await heard.until('beat')
    const early = Promise.withResolvers<void>()
    const late = database.transaction(async transaction => {
      await transaction.query(notify, ['a "channel"', 'second'])
      await early.promise
    })
    await database.query(notify, ['a "channel"', 'first'])
    early.resolve()
    await late
    await database
      .transaction(async transaction => {
        await transaction.query(notify, ['a "channel"', 'never'])
        throw new Error('rolled back')
      })
      .catch(() => undefined)
    await database.query(notify, ['another', 'elsewhere'])
    await database.query(notify, ['a "channel"', 'third'])
    await heard.until('third')
    expect(heard.events.filter(event => event !== 'beat')).toEqual(['first', 'second', 'third'])
  })

  test('everything committed before a beat was delivered before it', async () => {
    const url = await postgres.createDatabase()
    const database = await openDatabase(url)
    const heard = listen(url, { beatMs: 1 })
    await heard.until('beat')
    for (let round = 0; round < 50; round++) {
      await database.query(notify, ['a "channel"', `message ${round}`])
      const beats = heard.events.filter(event => event === 'beat').length
      // The running beat may have begun before the commit, so the next one counts.
      await heard.until('beat', beats + 2)
      expect(heard.events).toContain(`message ${round}`)
    }
  })

  test('a connection that the server closes is reported once, and replaced', async () => {
    const url = await postgres.createDatabase()
    const database = await openDatabase(url)
    const heard = listen(url)
    await heard.until('beat')
    await database.query(`SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE application_name = 'sluice-test-listener'`)
    await heard.until('lost')
    await heard.untilNext('beat')
    expect(heard.events.filter(event => event === 'lost')).toHaveLength(1)
    expect(heard.errors[0]).toMatchObject({ name: 'DatabaseError', sqlState: '57P01' })
    await database.query(notify, ['a "channel"', 'again'])
    await heard.until('again')
  })

  test('a connection that becomes silent is lost after its time limit, and so is one that is silent from the start', async () => {
    const { proxy, url } = await proxied(await postgres.createDatabase())
    const heard = listen(url, { answerMsMax: 500 })
    await heard.until('beat')
    // On a busy machine some may already be late.
    const lost = heard.errors.length
    proxy.halfOpen()
    // Without the time limits it would wait for hours.
    await heard.until('lost', lost + 3)
    await proxy.heal()
    await heard.untilNext('beat')
  })

  test('a server that answers but delivers no notifications, as behind a pooler, does not count as connected', async () => {
    const url = await postgres.createDatabase()
    const database = await openDatabase(url)
    await database.execute(`
      CREATE SCHEMA silent;
      CREATE FUNCTION silent.pg_notify(text, text) RETURNS void LANGUAGE sql AS '';
      ALTER DATABASE ${new URL(url).pathname.slice(1)} SET search_path = silent, pg_catalog`)
    const heard = listen(url, { answerMsMax: 500 })
    const message = 'a notification did not come back in time: a pooler in between may drop them'
    await expect.poll(() => heard.errors.filter(error => error.message.includes(message)).length).toBeGreaterThan(1)
    expect(heard.events).not.toContain('beat')
  })

  test('it closes immediately, whatever its connection does', async () => {
    const { proxy, url } = await proxied(await postgres.createDatabase())
    const [listening, nowhere] = [listen(url, { beatMs: 60_000 }), listen(`postgres://127.0.0.1:${await freePort()}/x`)]
    await listening.until('beat')
    await nowhere.untilNext('lost')
    // Before it would connect again it waits, which a close ends without anything else having to happen.
    expect(await Promise.race([nowhere.close(), immediate('it still waits')])).toBeUndefined()
    proxy.halfOpen()
    const silent = listen(url)
    await expect.poll(() => proxy.connections).toBe(2)
    const starting = listen(url)
    const startedMs = performance.now()
    await Promise.all([listening.close(), silent.close(), starting.close()])
    // Without the close they would wait for a minute, for the next beat and for an answer.
    expect(performance.now() - startedMs).toBeLessThan(30_000)
  })

  test("no error contains the server's password", async () => {
    const heard = listen(`postgres://somebody:hidden-word@127.0.0.1:${await freePort()}/x`)
    await heard.until('lost')
    expect(heard.errors[0]!.message).toMatch(/the connection to PostgreSQL at 127\.0\.0\.1:\d+\/x failed/)
    expect(String(heard.errors[0]!.stack) + String(heard.errors[0]!.cause)).not.toContain('hidden-word')
  })
})
