// The database interface on a server: the conformance suite, and faults of connections.

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { type Database, DatabaseError } from '../../database/database.ts'
import { openServer, type ServerOptions } from '../../database/server.ts'
import { binaryRows, int4, text } from '../conformance/binary-rows.ts'
import { databaseConformance } from '../conformance/database.ts'
import { describeWithOwnPostgres } from '../servers/postgres.ts'

describeWithOwnPostgres('PostgreSQL server', postgres => {
  const opened: Database[] = []
  const open = async (options: Partial<ServerOptions> = {}): Promise<Database> => {
    const database = await openServer({ url: postgres.url, applicationName: 'sluice test', connectionsMax: 4, ...options })
    opened.push(database)
    return database
  }
  afterEach(async () => {
    await Promise.all(opened.splice(0).map(database => database.close()))
  })
  const failureOf = (work: Promise<unknown>): Promise<DatabaseError> =>
    work.then(
      () => {
        throw new Error('it did not fail')
      },
      (error: unknown) => {
        expect(error).toBeInstanceOf(DatabaseError)
        return error as DatabaseError
      },
    )

  databaseConformance('port', async () =>
    openServer({ url: await postgres.createDatabase(), applicationName: 'sluice test', connectionsMax: 4 }),
  )

  test('a connection that breaks during a statement is a transient error, and the next statement uses another', async () => {
    const database = await open()
    const other = await open()
    const sleeping = failureOf(database.query('SELECT pg_sleep(60)::text'))
    // Until the server has begun the statement there is no backend to end.
    const terminate = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep(60)%'`
    await expect.poll(() => other.query(terminate)).toHaveLength(1)
    expect((await sleeping).transient).toBe(true)
    expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
  })

  test('a running statement ends immediately when its signal aborts, and so does waiting for a connection', async () => {
    const database = await open({ connectionsMax: 1, connectTimeoutMs: 60_000 })
    const giveUp = new AbortController()
    const reason = new Error('not any more')
    const running = database.run([{ sql: 'SELECT pg_sleep(60)', values: [] }], giveUp.signal)
    const waiting = database.transaction(async () => 'begun', giveUp.signal)
    const other = await open()
    await expect.poll(() => other.query(`SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)'`)).toHaveLength(1)
    giveUp.abort(reason)
    await expect(running).rejects.toBe(reason)
    await expect(waiting).rejects.toBe(reason)
    expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
    await other.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)'`)
  })

  test('a transaction whose connection breaks while it is idle fails as transient, and is not stored', async () => {
    const database = await open()
    const other = await open()
    await database.execute('DROP TABLE IF EXISTS broken; CREATE TABLE broken (id int4)')
    const error = await failureOf(
      database.transaction(async transaction => {
        const [row] = await transaction.query('INSERT INTO broken VALUES (1) RETURNING pg_backend_pid() AS pid')
        await other.query('SELECT pg_terminate_backend($1)', [row?.['pid'] as number])
        // The error has arrived, on an idle connection, once the server's process has ended.
        await expect.poll(() => other.query('SELECT FROM pg_stat_activity WHERE pid = $1', [row?.['pid'] as number])).toEqual([])
      }),
    )
    expect(error.transient).toBe(true)
    expect(await database.query('SELECT * FROM broken')).toEqual([])
  })

  test('a connection that breaks during a COPY is a transient error without a line', async () => {
    const database = await open()
    const other = await open()
    await database.execute('DROP TABLE IF EXISTS copied; CREATE TABLE copied (id int4, name text)')
    const rows = binaryRows(Array.from({ length: 60_000 }, (_, at) => [int4(at), text('x'.repeat(500))]))
    const error = await failureOf(
      database.transaction(async transaction => {
        const [row] = await transaction.query('SELECT pg_backend_pid() AS pid')
        const copying = transaction.copy('copied', rows)
        await other.query('SELECT pg_terminate_backend($1)', [row?.['pid'] as number])
        await copying
      }),
    )
    expect(error).toMatchObject({ transient: true, line: undefined })
    expect(await database.query('SELECT count(*) FROM copied')).toEqual([{ count: 0n }])
  })

  test('idle connections survive a restart of the server: they are reported, and replaced', async () => {
    const lost: Error[] = []
    const database = await open({ onConnectionLost: error => lost.push(error) })
    await Promise.all([1, 2, 3].map(() => database.query('SELECT pg_sleep(0.05)::text')))
    await postgres.restart('immediate')
    expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
    expect(lost.length).toBeGreaterThan(0)
    expect(lost[0]).toMatchObject({ transient: true })
  })

  test('a server that is away is a transient error that names it, and not its password', async () => {
    const database = await open({ url: 'postgres://ann:secret@127.0.0.1:1/site' })
    const error = await failureOf(database.query('SELECT 1'))
    expect(error).toMatchObject({ sqlState: '', transient: true })
    expect(error.message).toMatch(/PostgreSQL at 127\.0\.0\.1:1\/site .*ECONNREFUSED/)
    expect(error.message).not.toContain('secret')
  })

  test('a missing database is not a transient error', async () => {
    const database = await open({ url: new URL('/nowhere', postgres.url).href })
    expect(await failureOf(database.query('SELECT 1'))).toMatchObject({ sqlState: '3D000', transient: false })
  })

  test('an invalid URL is refused without repeating it', async () => {
    await expect(open({ url: 'postgres://ann:secret@[' })).rejects.toThrow(/is malformed: write postgres:/)
    await expect(open({ url: 'postgres://ann:secret@[' })).rejects.not.toThrow(/secret/)
  })

  test('a statement waits for a lock no longer than the lock timeout (55P03)', async () => {
    const database = await open({ lockTimeoutMs: 100 })
    await database.execute('DROP TABLE IF EXISTS locked; CREATE TABLE locked (id int4)')
    await database.transaction(async transaction => {
      await transaction.execute('LOCK TABLE locked')
      expect(await failureOf(database.query('SELECT * FROM locked'))).toMatchObject({ sqlState: '55P03', transient: true })
    })
  })

  test('a statement runs no longer than the statement timeout (57014)', async () => {
    const database = await open({ statementTimeoutMs: 100 })
    expect(await failureOf(database.query('SELECT pg_sleep(60)::text'))).toMatchObject({ sqlState: '57014', transient: true })
  })

  test('the server shows the application name', async () => {
    const database = await open({ applicationName: 'sluice writer greenhouse' })
    expect(await database.query(`SELECT current_setting('application_name') AS name`)).toEqual([{ name: 'sluice writer greenhouse' }])
  })

  test.each([
    ['its first settings', 0, 500],
    ['a ROLLBACK', 2, 5_000],
  ])('a server that becomes silent at %s is dropped too, and closing does not wait for it', async (_what, answers, leastMs) => {
    const silent = await openSilentServer(answers)
    const connectTimeoutMs = answers === 0 ? 500 : 60_000
    const database = await open({ url: silent.url, connectTimeoutMs, statementTimeoutMs: 500 })
    const begun = performance.now()
    const letters = new Error('the dead letters are away')
    // Without a time limit it would never end.
    const failure = await database.transaction(() => Promise.reject(letters)).catch((error: unknown) => error)
    if (answers === 0) expect(failure).toMatchObject({ sqlState: '', transient: true })
    else expect(failure).toBe(letters)
    expect(performance.now() - begun).toBeGreaterThan(leastMs - 50)
    await database.close()
    silent.close()
  })

  test('connections to a server that has become read-only (25006) are dropped, in a transaction and outside', async () => {
    const url = await postgres.createDatabase()
    const other = await open({ url })
    await other.execute('CREATE TABLE written (id int4)')
    const readOnly = (to: 'on' | 'off') =>
      other.execute(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_read_only = ${to}`)
    const insert = [{ sql: 'INSERT INTO written VALUES (1)', values: [] }]
    const ways: ((database: Database) => Promise<unknown>)[] = [
      database => database.query(insert[0]!.sql),
      database => database.run(insert),
      database => database.transaction(transaction => transaction.query(insert[0]!.sql)),
      database =>
        database.transaction(async transaction => {
          await transaction.query(insert[0]!.sql).catch(() => undefined)
          throw new Error('what the work made of it')
        }),
    ]
    for (const write of ways) {
      const database = await open({ url, connectionsMax: 1 })
      await readOnly('on')
      await expect(write(database)).rejects.toThrow()
      await readOnly('off')
      await write(database).catch((error: unknown) => expect(error).not.toMatchObject({ sqlState: '25006' }))
    }
    // The last way stores nothing, because it throws.
    expect(await other.query('SELECT count(*)::int FROM written')).toEqual([{ count: 3 }])
  })

  test('an unhurried statement of a transaction may take longer than any time limit', async () => {
    const database = await open({ statementTimeoutMs: 1_000 })
    const done = database.transaction(async transaction => {
      await transaction.execute('SET LOCAL statement_timeout = 0; SELECT pg_sleep(7)', { unhurried: true })
      return 'done'
    })
    expect(await done).toBe('done')
  })

  test('the server rolls back a transaction that is idle for 5 s longer than the statement timeout', async () => {
    const others = await open({ url: postgres.url })
    await others.execute('CREATE TABLE left_alone (id int4)')
    const database = await open({ url: postgres.url, applicationName: 'left alone', connectionsMax: 1, statementTimeoutMs: 1_000 })
    const isThere = async () => (await others.query(`SELECT FROM pg_stat_activity WHERE application_name = 'left alone'`)).length > 0
    const work = database.transaction(async transaction => {
      await transaction.query('INSERT INTO left_alone VALUES (1)')
      while (await isThere()) await wait(20)
      await transaction.query('INSERT INTO left_alone VALUES (2)')
    })
    expect(await failureOf(work)).toMatchObject({ transient: true })
    await database.query('INSERT INTO left_alone VALUES (3)')
    expect(await others.query('SELECT id FROM left_alone')).toEqual([{ id: 3 }])
    await others.execute('DROP TABLE left_alone')
  })

  test('the server looks for a vanished client as often as the client for a vanished server', async () => {
    const database = await open()
    const settings = `SELECT current_setting('tcp_keepalives_idle') AS idle, current_setting('tcp_keepalives_interval') AS interval`
    expect(await database.query(settings)).toEqual([{ idle: '10', interval: '1' }])
  })

  test('a silent connection is dropped 5 s after the statement timeout', async () => {
    const proxy = await openProxy(Number(new URL(postgres.url).port))
    const url = postgres.url.replace(`:${new URL(postgres.url).port}`, `:${proxy.port}`)
    const database = await open({ url, statementTimeoutMs: 1_000 })
    await database.query('SELECT 1')
    proxy.silence()
    const begun = performance.now()
    expect(await failureOf(database.query('SELECT 1'))).toMatchObject({ sqlState: '', transient: true })
    expect(performance.now() - begun).toBeGreaterThan(5_900)
    proxy.close()
  })
})

/** Accepts every client, and answers only this many queries. */
async function openSilentServer(answers: number): Promise<{ url: string; close(): void }> {
  const sockets = new Set<Socket>()
  const message = (type: string, body: Buffer): Buffer => {
    const header = Buffer.alloc(5)
    header.write(type)
    header.writeInt32BE(body.length + 4, 1)
    return Buffer.concat([header, body])
  }
  const ready = (state: 'I' | 'T') => message('Z', Buffer.from(state))
  const completed = (command: string) => message('C', Buffer.from(`${command}\0`))
  const server: Server = createServer(socket => {
    let answered = -1
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('data', bytes => {
      const text = bytes.toString('latin1')
      if (answered++ === -1) socket.write(Buffer.concat([message('R', Buffer.alloc(4)), ready('I')]))
      else if (answered > answers) return
      else if (text.includes('BEGIN')) socket.write(Buffer.concat([completed('BEGIN'), ready('T')]))
      else socket.write(Buffer.concat([...text.matchAll(/SET /g)].map(() => completed('SET')).concat(ready('I'))))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `postgres://ann@127.0.0.1:${(server.address() as AddressInfo).port}/site?sslmode=disable`,
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

/** Forwards bytes until `silence` makes it drop them, like a network that has lost one end. */
async function openProxy(target: number): Promise<{ port: number; silence(): void; close(): void }> {
  const sockets = new Set<Socket>()
  let silent = false
  const server: Server = createServer(client => {
    const upstream = connect(target, '127.0.0.1')
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.on('data', bytes => silent || to.write(bytes))
      from.on('error', () => to.destroy())
      from.on('close', () => silent || to.destroy())
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    silence: () => {
      silent = true
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
