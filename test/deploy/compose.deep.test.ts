// What deploy/compose.yaml starts, as processes on the tests' servers behind nginx: README's tour through its one address, and a writer killed under load.

import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import mqtt from 'mqtt'
import { Client } from 'pg'
import { expect, test } from 'vitest'
import { openEvents } from '../readers/live/event-source.ts'
import { extractBlocks, runBlocks } from '../readme/blocks.ts'
import { describeWithOwnCassandra } from '../servers/cassandra.ts'
import { describeUnlessMissing, describeWithServer } from '../servers/describe-with.ts'
import { describeWithOwnInflux } from '../servers/influx.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { missingNginxStream } from '../servers/install/proxies.ts'
import { describeWithOwnKafka } from '../servers/kafka.ts'
import { describeWithOwnMongo } from '../servers/mongo.ts'
import { type Postgres, startPostgres } from '../servers/postgres.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { root } from '../tidy/files.ts'
import { call, expectStatus, makeSite, publish, readUntil, type Site } from '../up/operator.ts'
import { type Composed, compose, type Servers } from './composed.ts'

/** A server that asks every role but the superuser for its password. */
async function startWithPasswords(): Promise<Postgres> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-hba-'))
  chmodSync(folder, 0o755)
  const file = join(folder, 'pg_hba.conf')
  writeFileSync(file, 'host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n')
  const server = await startPostgres({ settings: { hba_file: file, max_connections: '200' } })
  return {
    ...server,
    stop: async () => {
      await server.stop()
      rmSync(folder, { recursive: true })
    },
  }
}

function describeWithOwnServers(name: string, suite: (servers: () => Servers, postgres: Postgres) => void): void {
  describeUnlessMissing(name, missingNginxStream(), () =>
    describeWithOwnKafka('with Kafka', kafka =>
      describeWithServer('and PostgreSQL', missingPostgres(), startWithPasswords, postgres =>
        suite(() => ({ kafka: kafka.brokers[0]!, postgres: new URL(postgres.url).host }), postgres),
      ),
    ),
  )
}

describeWithOwnServers('the containers without a profile', (servers, postgres) => {
  test("README's tour works through one address, and a writer killed under load loses and doubles nothing", async () => {
    const composed = await compose(servers())
    expect((await fetch(`${composed.url}/livez`)).status).toBe(200)
    const demo = {
      code: 0,
      printed: expect.stringMatching(/^holds .* acknowledged messages are read back, each once: 0 missing, 0 too many$/m),
    }
    expect(await composed.run('demo')).toEqual(demo)
    await readmeTour(composed)
    await liveAndCertificates(composed)
    await overMqtt(composed)
    await otherRoles(composed)
    await killWriter(composed, postgres)
  })
})

describeWithOwnServers('the containers of the profile `all`', servers =>
  describeWithOwnCassandra('Cassandra', cassandra =>
    describeWithOwnInflux('InfluxDB', influx =>
      describeWithOwnMongo('and MongoDB', mongo => {
        test('each store has each message once, and is read at its path of the one address', async () => {
          const influxdb = { address: new URL(influx.url).host, token: influx.token }
          const others = { cassandra: cassandra.contactPoint, influxdb, mongodb: new URL(mongo.url).host }
          const composed = await compose({ ...servers(), ...others }, ['all'])
          const site = await siteOf(composed)
          for (let v = 0; v < 20; v++) await expectStatus(publish(composed.url, site, [{ n: `count-${v}`, v }], 'all'), 202)
          for (const store of ['relational', 'widecolumn', 'timeseries', 'document']) {
            const base = store === 'relational' ? composed.url : `${composed.url}/${store}`
            expect(await readUntil(base, site, 20)).toHaveLength(20)
            const verified = await composed.exec(`writer-${store}`, ['verify', store])
            expect([store, verified]).toEqual([store, { code: 0, printed: expect.stringMatching(/^ok: 20 messages in 12 partitions/m) }])
          }
          const live = await openEvents(`${composed.url}/document/channels/${site.channel}/messages/stream`, { authorization: site.owner })
          await expectStatus(publish(composed.url, site, [{ n: 'live', v: 1 }]), 202)
          await live.until(1)
          live.leave()
        })
      }),
    ),
  ),
)

/** Of a user whom the administrator created: others may not register. */
async function siteOf({ url, secrets }: Composed): Promise<Site> {
  const stranger = { email: 'stranger@sluice.example', password: 'correct horse battery' }
  expect((await call(url, 'POST', '/users', { body: stranger })).status).toBe(401)
  return makeSite(url, { email: 'admin@sluice.local', password: readFileSync(join(secrets, 'admin-password'), 'utf8').trim() })
}

/** The blocks of the README, with what differs: the address, and where the administrator's password is. */
async function readmeTour({ url, secrets }: Composed): Promise<void> {
  const blocks = extractBlocks(readFileSync(join(root, 'README.md'), 'utf8'), 'tour')
  const stored = `until curl -s "$base/channels/$channel_id/messages?format=climate" -H "$device" | grep -q '"total":1'; do sleep 0.1; done`
  const replace = {
    'http://127.0.0.1:8080': url,
    'data/admin-password': join(secrets, 'admin-password'),
    'sleep 0.3': stored,
    // Beside a writer it needs no token, and no address (below).
    'SVC_TOKEN=$token ./sluice verify relational --url $base': 'true',
  }
  const expected = {
    2: /"id":"messages-\d+-0"[^]*"id":"messages-\d+-1"/,
    3: /"total":2,.*"Name":"room:window","Time":1700000000,"BoolValue":false[^]*"Payload":\{"temperature":21.5,"window":\{"open":false\}\}/,
  }
  const environment = { CURL_CA_BUNDLE: join(secrets, 'front.pem') }
  await runBlocks(blocks, { cwd: temporaryFolder(), replace, expected, environment })
}

/** Through nginx, which ends TLS. */
async function overMqtt(composed: Composed): Promise<void> {
  const { url, secrets } = composed
  const site = await siteOf(composed)
  const ca = readFileSync(join(secrets, 'front.pem'))
  const options = { username: site.thing, password: site.device.replace('Thing ', ''), reconnectPeriod: 0, ca }
  const client = await mqtt.connectAsync(`mqtts://${new URL(url).hostname}:8883`, options)
  await client.publishAsync(`channels/${site.channel}/messages`, '[{"n":"mqtt","v":1}]', { qos: 1 })
  await client.endAsync()
  expect(await readUntil(url, site, 1)).toMatchObject([{ Name: 'mqtt', Protocol: 'mqtt' }])
}

/** A live stream arrives unbuffered; a device publishes with its certificate alone, and cannot send the header of another one. */
async function liveAndCertificates(composed: Composed): Promise<void> {
  const { url, port, secrets } = composed
  const site = await siteOf(composed)
  const events = await openEvents(`${url}/channels/${site.channel}/messages/stream`, {
    authorization: site.owner,
    accept: 'text/event-stream',
  })
  await expectStatus(publish(url, site, [{ n: 'live', v: 1 }]), 202)
  await events.until(1)
  expect(events.names()).toEqual(['live'])
  events.leave()

  const { json } = await expectStatus(
    call(url, 'POST', '/certs', { authorization: site.owner, body: { thing_id: site.thing, key_type: 'ec' } }),
    201,
  )
  const shown = { cert: String(json!['ClientCert']), key: String(json!['ClientKey']) }
  const host = new URL(url).hostname
  const ca = readFileSync(join(secrets, 'front.pem'))
  const send = (certificate: Partial<typeof shown>, headers = {}): Promise<[number | undefined, string]> =>
    new Promise((resolve, reject) => {
      const options = { host, port, ca, agent: false, method: 'POST', path: `/channels/${site.channel}/messages`, ...certificate }
      const sent = request({ ...options, headers: { 'content-type': 'application/senml+json', ...headers } }, answer => {
        text(answer).then(body => resolve([answer.statusCode, body]), reject)
      })
      sent.on('error', reject).end('[{"n":"certified","v":1}]')
    })
  expect((await send(shown))[0]).toBe(202)
  const der = shown.cert.replaceAll(/-----[A-Z ]+-----|\s/g, '')
  expect((await send({}, { 'client-cert': `:${der}:` }))[0]).toBe(401)
  // One that the platform did not issue passes nginx, and not ingest.
  const foreign = { cert: readFileSync(join(secrets, 'front.pem'), 'utf8'), key: readFileSync(join(secrets, 'front-key.pem'), 'utf8') }
  expect((await send(foreign))[0]).toBe(401)
  expect((await readUntil(url, site, 2)).map(({ Name }) => Name)).toEqual(['certified', 'live'])
}

/** What is neither published nor read goes to api; a store without its profile is a 502. */
async function otherRoles(composed: Composed): Promise<void> {
  const { url } = composed
  const site = await siteOf(composed)
  const body = { external_id: 'front-1', external_key: 'key of the front 1', name: 'gateway' }
  expect((await call(url, 'POST', '/mapping', { authorization: site.owner, body })).status).toBe(201)
  expect((await fetch(`${url}/certs/crl`)).status).toBe(200)
  expect((await call(url, 'GET', '/metrics')).status).toBe(404)
  const other = await call(url, 'GET', `/document/channels/${site.channel}/messages`, { authorization: site.owner })
  expect(other.status).toBe(502)
}

const loadConnections = 16

async function killWriter(composed: Composed, postgres: Postgres): Promise<void> {
  const site = await siteOf(composed)
  const load = startLoad(composed.url, site)
  const stored = (): Promise<number> => composed.metric('writer-relational', 'component_sent_events_total')
  for (let kills = 0; kills < 3; kills++) {
    const before = await stored()
    while ((await stored()) < before + 500) await load.progress()
    const writer = composed.running.get('writer-relational')!
    writer.child.kill('SIGKILL')
    expect(await writer.ended).toBe('SIGKILL')
    // As restart: unless-stopped does.
    await composed.start('writer-relational')
  }
  const acknowledged = await load.stop()
  expect(acknowledged).toBeGreaterThan(1_500)

  let verified = await composed.exec('writer-relational', ['verify', 'relational'])
  while (verified.code === 0 && !/, 0 more in flight/.test(verified.printed)) {
    verified = await composed.exec('writer-relational', ['verify', 'relational'])
  }
  expect(verified).toMatchObject({ code: 0, printed: expect.stringMatching(/^ok: \d+ messages in 12 partitions, 0 more in flight/m) })
  // The tour's.
  expect(verified.printed).toMatch(/dead-lettered 1;/)
  const client = new Client(new URL('/messages', postgres.url).href)
  await client.connect()
  const { rows } = await client.query<{ rows: string; messages: string }>(
    `SELECT count(*) AS rows, count(DISTINCT value) AS messages FROM messages WHERE channel = $1`,
    [site.channel],
  )
  await client.end()
  expect(rows).toEqual([{ rows: String(acknowledged), messages: String(acknowledged) }])
}

/** Publishes on connections in parallel, each message with another value, until it is stopped; resolves then with how many got a 202. */
function startLoad(url: string, site: Site) {
  const stopping = new AbortController()
  let sent = 0
  let acknowledged = 0
  let progressed = Promise.withResolvers<void>()
  async function flow(): Promise<void> {
    while (!stopping.signal.aborted) {
      await expectStatus(publish(url, site, [{ n: 'load', v: sent++ }]), 202)
      acknowledged++
      progressed.resolve()
      progressed = Promise.withResolvers()
    }
  }
  const flows = Promise.all(Array.from({ length: loadConnections }, flow))
  flows.catch(() => undefined)
  return {
    /** Resolves at the next 202. @throws Error for another answer */
    progress: () => Promise.race([progressed.promise, flows]),
    async stop() {
      stopping.abort()
      await flows
      return acknowledged
    },
  }
}
