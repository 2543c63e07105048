// The PostgreSQL servers of the tests themselves.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { expect, test, vi } from 'vitest'
import { openServer } from '../../config/postgres/server.ts'
import { freePort } from './free-port.ts'
import { describeWithPostgres, startPostgres } from './postgres.ts'

describeWithPostgres('a test server', postgres => {
  test('gives each caller a database of its own, and keeps it through a crash', { timeout: 60_000 }, async () => {
    const [first, second] = [await postgres.createDatabase(), await postgres.createDatabase()]
    expect(first).not.toBe(second)
    const database = await openServer({ url: first, applicationName: 'test', connectionsMax: 1 })
    await database.execute('CREATE TABLE plants (id int4)')
    await postgres.restart('immediate')
    expect(await database.query('SELECT * FROM plants').catch(() => database.query('SELECT * FROM plants'))).toEqual([])
    await database.close()
  })

  test('is down between its kill and its restart, and keeps what was committed', { timeout: 60_000 }, async () => {
    const url = await postgres.createDatabase()
    const open = () => openServer({ url, applicationName: 'test', connectionsMax: 1 })
    const before = await open()
    await before.execute('CREATE TABLE plants (id int4)')
    await postgres.kill()
    await expect(before.query('SELECT 1')).rejects.toThrow()
    await before.close()
    await postgres.restart()
    const after = await open()
    expect(await after.query('SELECT * FROM plants')).toEqual([])
    await after.close()
  })

  test('answers no new connection while it is halted', { timeout: 60_000 }, async () => {
    postgres.pause()
    const socket = connect(Number(new URL(postgres.url).port), '127.0.0.1')
    // The request for encryption, which a server answers with one byte.
    socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]))
    const answered = once(socket, 'data')
    expect(await Promise.race([answered, once(AbortSignal.timeout(300), 'abort').then(() => 'silence')])).toBe('silence')
    postgres.resume()
    expect(String(await answered)).toBe('N')
    socket.destroy()
  })

  test('several start at once and share nothing', { timeout: 60_000 }, async () => {
    const servers = await Promise.all([startPostgres(), startPostgres()])
    expect(new Set([postgres.url, ...servers.map(server => server.url)]).size).toBe(3)
    await Promise.all(servers.map(server => server.stop()))
  })

  test('ends, and leaves no files, when the process that started it is killed', { timeout: 60_000 }, async () => {
    const code = `import { startPostgres } from ${JSON.stringify(new URL('./postgres.ts', import.meta.url).href)}
      const postgres = await startPostgres(); console.log(postgres.url); console.log(postgres.folder); setInterval(() => {}, 1000)`
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] })
    const lines: string[] = []
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line)
      if (lines.length === 2) break
    }
    const [url = '', folder = ''] = lines
    expect(existsSync(folder)).toBe(true)
    child.kill('SIGKILL')
    await vi.waitFor(() => expect(existsSync(folder)).toBe(false), { timeout: 20_000 })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const [refused] = (await once(socket, 'error')) as [NodeJS.ErrnoException]
    expect(refused.code).toBe('ECONNREFUSED')
  })
})

test('a free port is none that a client can be given', async () => {
  for (let round = 0; round < 20; round += 1) {
    const port = await freePort()
    expect(port).toBeGreaterThanOrEqual(20_000)
    expect(port).toBeLessThan(32_768)
  }
})
