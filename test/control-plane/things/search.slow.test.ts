// A search by metadata that a server cannot answer in a few seconds ends, and says how to ask for less.

import { expect, test } from 'vitest'
import { openServer } from '../../../config/postgres/server.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { call } from '../../up/operator.ts'
import { openPlatform } from '../platform.ts'

describeWithPostgres('long searches', postgres => {
  test('a search by metadata that takes too long is 422 and names what narrows it; a list without one waits', async () => {
    const database = await openServer({ url: await postgres.createDatabase(), applicationName: 'sluice-test', connectionsMax: 4 })
    const platform = await openPlatform(database)
    const { token: authorization } = await platform.user()
    const list = database.transaction(async transaction => {
      await transaction.execute('LOCK TABLE control_plane.things IN ACCESS EXCLUSIVE MODE')
      const waiting = call(platform.url, 'GET', '/things', { authorization })
      const answer = await call(platform.url, 'POST', '/things/search', { authorization, body: { metadata: { a: 1 } } })
      expect([answer.status, answer.json?.detail]).toEqual([422, expect.stringContaining('narrow the list by name')])
      return { waiting }
    })
    expect((await (await list).waiting).status).toBe(200)
    await platform.close()
    await database.close()
  })
})
