// A separate control plane with its policies in OpenFGA: every caller gets the same answers as with other stores, and no secret of the processes leaks.

import { expect, test } from 'vitest'
import { parseMasterKeys } from '../../config/secrets.ts'
import { openServer } from '../../database/server.ts'
import { type Asker, openAsker } from '../control-plane/isolation/asker.ts'
import { askAll } from '../control-plane/isolation/matrix.ts'
import { nameOf } from '../control-plane/isolation/row.ts'
import { controlPlaneRows } from '../control-plane/isolation/rows.ts'
import { askWithHiddenSecrets, formsOf, leaksOf } from '../control-plane/isolation/secrets.ts'
import { openWorld, type World } from '../control-plane/isolation/world.ts'
import { describeWithOpenFga, type OpenFga } from '../servers/openfga.ts'
import { describeWithPostgres } from '../servers/postgres.ts'
import { administrator, masterKey, type Role, startApi, token } from './processes.ts'

describeWithPostgres('an api', postgres => {
  describeWithOpenFga('with OpenFGA', openfga => {
    test('answers each caller according to their rights, and leaks no secret', async () => {
      const databaseUrl = await postgres.createDatabase()
      const api = await startApi(databaseUrl, {
        SVC_LOGGING_LEVEL: 'trace',
        SVC_USERS_BOUND_SELF_REGISTERED: 'false',
        SVC_POLICIES_STORE: 'openfga',
        SVC_POLICIES_OPENFGA_URL: openfga.url,
        SVC_POLICIES_OPENFGA_KEY: openfga.key,
      })
      const asker = openAsker(api.url)
      const [key] = parseMasterKeys(masterKey, 'the tests')
      const world = await openWorld({ asker, administrator, masterKey: key })
      for (const row of controlPlaneRows) {
        const { got, wanted } = await askAll(world, row)
        expect(got, nameOf(row)).toEqual(wanted)
      }
      const internal = await askAsProcess(api, world)
      await askWhileAway(asker, openfga, world)
      await askWithHiddenSecrets(asker)

      const metrics = await (await fetch(`${api.internalUrl}/metrics`)).text()
      const audit = await auditTable(databaseUrl)
      expect(await api.stop()).toBe(0)
      const refusals = [...asker.refusals, ...internal.refusals].join('\n')
      const texts = { log: api.printed(), refusals, metrics, audit }
      expect(api.printed()).toMatch(/"level":"debug"/)
      const secrets = [
        ...asker.secrets,
        ...internal.secrets,
        ...formsOf(key),
        token,
        openfga.key,
        Buffer.from(openfga.key).toString('base64'),
      ]
      expect(leaksOf(texts, secrets)).toEqual([])
    })
  })
})

/** Requests of ingest and readers: with the token of the processes, with a wrong one and without any. */
async function askAsProcess({ internalUrl }: Role, { site }: World): Promise<Asker> {
  const asker = openAsker(internalUrl)
  const body = { scheme: 'Thing', secret: site.thing.key, channel: site.channel, action: 'publish' }
  const statuses: number[] = []
  for (const authorization of [`Bearer ${token}`, 'Bearer a-token-of-another-platform', undefined]) {
    const answer = await asker.call('POST', '/internal/authorize', { body, ...(authorization === undefined ? {} : { authorization }) })
    statuses.push(answer.status)
  }
  await asker.call('POST', '/internal/authorize', { authorization: `Bearer ${token}`, body: { ...body, action: site.thing.key } })
  expect(statuses).toEqual([200, 401, 401])
  return asker
}

async function askWhileAway({ call }: Asker, openfga: OpenFga, { site, authorization }: World): Promise<void> {
  const owner = { authorization: authorization('owner')! }
  await openfga.kill()
  try {
    for (const body of [{ name: 'one' }, { name: 'two' }]) expect((await call('POST', '/things', { ...owner, body })).status).toBe(503)
    expect((await call('GET', `/things/${site.thing.id}`, owner)).status).toBe(503)
  } finally {
    await openfga.restart()
  }
}

async function auditTable(url: string): Promise<string> {
  const database = await openServer({ url, applicationName: 'sluice-test', connectionsMax: 1 })
  const rows = await database.query<{ line: string }>('SELECT audit::text AS line FROM control_plane.audit AS audit')
  await database.close()
  expect(rows).not.toEqual([])
  return rows.map(({ line }) => line).join('\n')
}
