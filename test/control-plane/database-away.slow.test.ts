// While the database is away, requests get 503 with Retry-After, and no access is guessed.

import { expect, test } from 'vitest'
import { openServer } from '../../database/server.ts'
import { describeWithPostgres, startPostgres } from '../servers/postgres.ts'
import { call, makeSite } from '../up/operator.ts'
import { openPlatform } from './platform.ts'

// The suite's own server only shows that PostgreSQL is installed: this test stops a separate one.
describeWithPostgres('database away', () => {
  test('every request is 503 with Retry-After, access is neither granted nor refused, and the check fails', async () => {
    const postgres = await startPostgres()
    const database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 4 })
    const platform = await openPlatform(database)
    try {
      const { owner, channel, thing } = await makeSite(platform.url)
      await platform.plane.check()
      await postgres.stop()

      await expect(platform.plane.check()).rejects.toMatchObject({ name: 'DatabaseError', transient: true })
      const credentials = { email: 'late@sluice.example', password: 'correct horse battery' }
      const answers = [
        await call(platform.url, 'GET', '/things', { authorization: owner }),
        await call(platform.url, 'DELETE', `/channels/${channel}/things/${thing}`, { authorization: owner }),
        await call(platform.url, 'POST', '/users', { body: credentials }),
        await call(platform.url, 'POST', '/tokens', { body: credentials }),
      ]
      for (const answer of answers) {
        expect([answer.status, answer.json?.code, answer.headers.get('retry-after')]).toEqual([503, 'unavailable', '1'])
        expect(answer.text).not.toMatch(/postgres|connect/i)
      }
      // A forged token is detected without the database.
      expect((await call(platform.url, 'GET', '/things', { authorization: `${owner}x` })).status).toBe(401)
      const asked = platform.plane.access.authorize({ credential: { scheme: 'Thing', secret: 'x' }, channel, action: 'publish' })
      await expect(asked).rejects.toMatchObject({ name: 'AccessUnavailableError' })
    } finally {
      await platform.close()
      await database.close()
    }
  })
})
