// `sluice policies repair` and `sluice secrets rotate` on the command line, on a server: their effects, output and refusals.

import { expect, test } from 'vitest'
import { generateSecret, type MasterKeys } from '../../../config/secrets.ts'
import { openServer } from '../../../database/server.ts'
import { main, outputOf } from '../../bin/command.ts'
import { masterKey as oldKey, openPlatform, type Platform } from '../../control-plane/platform.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { call, expectStatus } from '../../up/operator.ts'
import { spawnRole } from '../processes.ts'

const owner = { email: 'owner@sluice.example', password: 'correct horse battery' }
const newKey = Buffer.from(generateSecret(), 'base64url')
const textOf = (...keys: Buffer[]): string => keys.map(key => key.toString('base64url')).join(',')

test('sluice secrets generate prints a secret that can be a master key and a service token, a new one each time', async () => {
  const [first, second] = [await outputOf(['secrets', 'generate']), await outputOf(['secrets', 'generate'])].map(String)
  for (const secret of [first, second]) expect(secret).toMatch(/^[\w-]{43}\n$/)
  expect(first).not.toBe(second)
})

describeWithPostgres('the database of a control plane', postgres => {
  async function openSite() {
    const url = await postgres.createDatabase()
    const database = await openServer({ url, applicationName: 'sluice-test', connectionsMax: 4 })
    const run = async (words: string, masterKeys = textOf(oldKey)): Promise<{ code: unknown; printed: string }> => {
      const { ended, printed } = spawnRole([main, ...words.split(' ')], { SVC_DATABASE_URL: url, SVC_MASTER_KEY: masterKeys })
      return { code: await ended, printed: printed() }
    }
    /** Runs the control plane during the work. */
    async function serving<Result>(
      work: (platform: Platform, token: string) => Promise<Result>,
      ...masterKeys: MasterKeys
    ): Promise<Result> {
      const platform = await openPlatform(database, { masterKeys })
      try {
        const { json } = await call(platform.url, 'POST', '/tokens', { body: owner })
        return await work(platform, `Bearer ${json!['token'] as string}`)
      } finally {
        await platform.close()
      }
    }
    await serving(async ({ url }) => {
      await expectStatus(call(url, 'POST', '/users', { body: owner }), 201)
      const { json } = await expectStatus(call(url, 'POST', '/tokens', { body: owner }), 201)
      const authorization = `Bearer ${json!['token'] as string}`
      for (const name of ['sensor', 'other']) await expectStatus(call(url, 'POST', '/things', { authorization, body: { name } }), 201)
    }, oldKey)
    return { database, run, serving }
  }

  test('repair is refused until the database is migrated; then it adds missing policies once, and reports them', async () => {
    const { database, run, serving } = await openSite()
    await database.execute(`DELETE FROM control_plane.tuples WHERE subject <> '*' AND object <> 'authorities'`)
    const [migration] = await database.query<{ name: string }>('DELETE FROM control_plane.migrations RETURNING name')
    expect(await run('policies repair')).toEqual({
      code: 1,
      printed: expect.stringMatching(/^the control plane's database has an older version.*\n$/),
    })
    await database.query('INSERT INTO control_plane.migrations (name, run_on) VALUES ($1, now())', [migration!.name])
    const createThing = () =>
      serving(async ({ url }, authorization) => (await call(url, 'POST', '/things', { authorization, body: {} })).status, oldKey)
    expect(await createThing()).toBe(403)
    const counts = (done: string): string => `                  CHECKED  ${done}  POLICY
users             2        2${' '.repeat(done.length + 1)}member of users
things            2        6${' '.repeat(done.length + 1)}read, write and delete for the owner
groups            0        0${' '.repeat(done.length + 1)}member for the owner
things in groups  2        0${' '.repeat(done.length + 1)}read, write and delete for the members of the group
`
    expect(await run('policies repair --dry-run')).toEqual({
      code: 0,
      printed: `${counts('TO BE ADDED')}8 policies would be added: nothing was changed\n`,
    })
    expect(await createThing()).toBe(403)
    expect(await run('policies repair')).toEqual({ code: 0, printed: `${counts('ADDED')}8 policies were added\n` })
    expect(await createThing()).toBe(201)
    expect(await run('policies repair')).toMatchObject({ code: 0, printed: expect.stringMatching(/^0 policies were added$/m) })
    await database.close()
  })

  test('rotate encrypts what is under the old key, and says how long that key is still needed', async () => {
    const { database, run, serving } = await openSite()
    const keys = textOf(newKey, oldKey)
    const [sensor, other] = await serving(async ({ url }, authorization) => {
      const { json } = await call(url, 'GET', '/things', { authorization })
      const found = json!['things'] as { id: string; key: string }[]
      await call(url, 'PATCH', `/things/${found[1]!.id}/key`, { authorization, body: { grace_seconds: 864_000 } })
      return found
    }, oldKey)
    const printed: string[] = []
    const rotate = async (words = ''): Promise<string> => {
      const ended = await run(`secrets rotate${words}`, keys)
      printed.push(ended.printed)
      expect(ended.code).toBe(0)
      return ended.printed
    }
    expect(await rotate(' --dry-run')).toMatch(
      /^MASTER KEY  THING KEYS\n[0-9a-f]{8} {4}0 {11}the first, used for new data\n[0-9a-f]{8} {4}2 {11}to be re-encrypted\nin addition, the previous key of a thing in its grace period, until \S+Z\n$/,
    )
    expect(await rotate()).toMatch(
      /^2 thing keys were re-encrypted with the master key [0-9a-f]{8}, and now all are\nthe old key is still needed\n {2}until \S+Z at the latest, for tokens .*\n {2}until (\S+Z) by the previous key of a thing in its grace period\nkeep it until \1, then give every instance only the first key\n$/,
    )
    expect(await rotate()).toMatch(/^every thing key was already encrypted with the master key [0-9a-f]{8}\n/)
    const answered = await serving(
      async ({ url }, authorization) => (await call(url, 'GET', `/things/${sensor!.id}`, { authorization })).json,
      newKey,
    )
    expect(answered).toMatchObject({ key: sensor!.key })
    const withOld = await run('secrets rotate', textOf(oldKey))
    expect([withOld.code, withOld.printed]).toEqual([
      1,
      expect.stringMatching(/^the control plane's database is encrypted with another master key.*\n$/),
    ])
    printed.push(withOld.printed)
    for (const secret of [textOf(oldKey), textOf(newKey), sensor!.key, other!.key]) expect(printed.join()).not.toContain(secret)
    await database.close()
  })
})
