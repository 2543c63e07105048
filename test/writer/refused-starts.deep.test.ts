// Permanent refusals at a start: the process ends before the deadline of a stop, and its last line says what to do.

import { expect, test } from 'vitest'
import { apiEnvironment, apiWords, lastLine, spawnRole, untilPrinted } from '../roles/processes.ts'
import { describeWithCassandra } from '../servers/cassandra.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { describeWithInflux } from '../servers/influx.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { describeWithKafka } from '../servers/kafka.ts'
import { openRelationalSite, type RelationalSite } from './stores/relational.ts'

interface Refused {
  readonly words: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** The server's code, if it sent one. */
  readonly code?: string
  readonly sentence: RegExp
  readonly secret: string
}

async function expectRefusal({ words, environment, code, sentence, secret }: Refused): Promise<void> {
  const { ended, printed } = spawnRole(words, { SVC_INTERNAL_LISTEN: '127.0.0.1:0', ...environment })
  expect(await ended).toBe(1)
  expect(lastLine(printed())).toMatchObject({
    level: 'fatal',
    err: code === undefined ? {} : { code },
    msg: expect.stringMatching(sentence) as unknown,
  })
  expect(printed()).not.toMatch(new RegExp(`did not stop in time|^ready on |"msg":"ready"|${secret}`, 'm'))
}

const writerWords = (store: string): string[] => [...apiWords.slice(0, 1), 'writer', store, '--port', '0']

describeWithKafka('a refused start', kafka => {
  const log = async (): Promise<Record<string, string>> => ({
    SVC_LOG_BROKERS: kafka.brokers.join(),
    SVC_LOG_TOPIC: await kafka.createTopic(),
    SVC_WORKERS_COUNT: '2',
  })

  describeUnlessMissing('by PostgreSQL', missingPostgres(), () => {
    const role = { name: 'sluice_writer', password: 'a-hidden-word' }
    const url = ({ environment }: RelationalSite, change: (url: URL) => void): string => {
      const changed = new URL(environment['SVC_RELATIONAL_URL']!)
      change(changed)
      return changed.href
    }

    test('a URL without the required password, a wrong password, and TLS to a server without TLS', async () => {
      const site = await openRelationalSite({ role })
      const refusals: [string, string, RegExp][] = [
        [url(site, one => (one.password = '')), '28P01', /rejected the login .*requires a password, and the URL has none/],
        [
          url(site, one => (one.password = 'a-hidden-word-2')),
          '28P01',
          /rejected the login .*password authentication failed for user "sluice_writer"/,
        ],
        [url(site, one => one.searchParams.set('sslmode', 'require')), '28000', /rejected the login .*does not support TLS/],
      ]
      for (const [changed, code, reason] of refusals) {
        const writerStart = { words: writerWords('relational'), environment: { ...(await log()), SVC_RELATIONAL_URL: changed } }
        const apiStart = { words: apiWords, environment: apiEnvironment(changed) }
        const secret = 'hidden-word'
        await expectRefusal({
          ...writerStart,
          code,
          secret,
          sentence: new RegExp(`${reason.source}.*store\\.url \\(SVC_RELATIONAL_URL\\)`),
        })
        await expectRefusal({ ...apiStart, code, secret, sentence: new RegExp(`${reason.source}.*database\\.url \\(SVC_DATABASE_URL\\)`) })
      }
      await site.close()
    })

    test('a role without rights: each error names the next missing GRANT, and it starts when it has them all', async () => {
      const site = await openRelationalSite()
      const environment = { ...(await log()), SVC_RELATIONAL_URL: site.environment['SVC_RELATIONAL_URL']! }
      const owner = spawnRole(writerWords('relational'), { SVC_INTERNAL_LISTEN: '127.0.0.1:0', ...environment })
      await untilPrinted(owner, /"msg":"ready"/)
      owner.child.kill('SIGTERM')
      expect(await owner.ended).toBe(0)
      await site.query('CREATE ROLE limited LOGIN; REVOKE ALL ON SCHEMA public FROM PUBLIC')
      const asLimited = { ...environment, SVC_RELATIONAL_URL: url(site, one => (one.username = 'limited')) }

      const granted: string[] = []
      for (;;) {
        const start = spawnRole(writerWords('relational'), { SVC_INTERNAL_LISTEN: '127.0.0.1:0', ...asLimited })
        const ready = untilPrinted(start, /"msg":"ready"/)
        if ((await Promise.race([start.ended, ready])) === undefined) break
        const { err, msg } = lastLine(start.printed())
        expect(err.code).toBe('42501')
        const [, grant] =
          /^PostgreSQL denied access to the .* \(SQLSTATE 42501: .*\): grant it to the user of store\.url \(SVC_RELATIONAL_URL\): (GRANT .* TO "limited")$/.exec(
            msg,
          )!
        expect(granted).not.toContain(grant)
        granted.push(grant!)
        await site.query(grant!)
      }
      expect(granted).toEqual([
        'GRANT USAGE, CREATE ON SCHEMA sluice TO "limited"',
        'GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA sluice TO "limited"',
      ])
      await site.close()
    })
  })

  describeWithCassandra('by Cassandra', cassandra => {
    test('an unknown data center, with the known ones', async () => {
      const environment = { ...(await log()), SVC_WIDECOLUMN_URL: `cassandra://${cassandra.contactPoint}/refused?dc=elsewhere` }
      const sentence =
        /^the cluster has no data center "elsewhere", only datacenter1: set \?dc= of store\.url \(SVC_WIDECOLUMN_URL\) to one of these$/
      await expectRefusal({ words: writerWords('widecolumn'), environment, sentence, secret: 'no secret' })
    })
  })

  describeWithInflux('by InfluxDB', influx => {
    test('an unknown token', async () => {
      const environment = { SVC_TIMESERIES_URL: `${influx.url}/?org=${influx.org}&bucket=refused`, SVC_TIMESERIES_TOKEN: 'a-hidden-word' }
      const sentence = /^InfluxDB does not know the token .*: correct store\.token \(SVC_TIMESERIES_TOKEN\)$/
      await expectRefusal({
        words: writerWords('timeseries'),
        environment: { ...(await log()), ...environment },
        code: 'unauthorized',
        sentence,
        secret: 'hidden-word',
      })
    })
  })
})
