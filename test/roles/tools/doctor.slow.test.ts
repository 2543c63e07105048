// `./sluice doctor` on real servers: what is well, each fault that was built in, and the start that ends with the same sentence.

import { AclOperations, AclPermissionTypes, Admin, ResourcePatternTypes, ResourceTypes } from '@platformatic/kafka'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { describeWithOwnKafka } from '../../servers/kafka.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { temporaryFolder } from '../../temporary-folder.ts'
import { type Environment, runSluice, startWriter, untilReady } from '../../writer/process.ts'
import { apiEnvironment, lastLine } from '../processes.ts'

/** Users with a login need rights; others, as those of this test, do not. */
const settings = {
  'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
  'super.users': 'User:ANONYMOUS',
  'allow.everyone.if.no.acl.found': 'true',
}
const anyPort = { SVC_HTTP_PORT: '0', SVC_INTERNAL_LISTEN: '127.0.0.1:0' }

interface Found {
  readonly check: string
  readonly status: string
  readonly detail: string
}

async function examined(words: readonly string[], environment: Environment): Promise<{ code: number | string; found: Found[] }> {
  const { code, printed } = await runSluice(['doctor', ...words, '--json'], { ...anyPort, ...environment })
  const lines = printed.split('\n').slice(0, -1)
  return { code, found: lines.map(line => JSON.parse(line) as Found) }
}

const statuses = (found: readonly Found[]): string[] => found.map(({ check, status }) => `${check} ${status}`)

describeWithOwnKafka(
  'the doctor',
  kafka =>
    describeWithOwnPostgres('of roles', postgres => {
      let database: Database
      let topic: string
      let environment: Environment

      beforeAll(async () => {
        const url = await postgres.createDatabase()
        database = await openServer({ url, applicationName: 'test', connectionsMax: 1 })
        topic = await kafka.createTopic({ partitions: 2 })
        environment = {
          SVC_LOG_BROKERS: kafka.brokers.join(),
          SVC_LOG_TOPIC: topic,
          SVC_RELATIONAL_URL: url,
          SVC_WORKERS_COUNT: '3',
        }
      })
      afterAll(() => database.close())

      /** The sentence with which a start ends. */
      async function startFailure(changed: Environment): Promise<string> {
        const writer = await startWriter({ ...environment, ...changed })
        expect(await writer.ended).toBe(1)
        return lastLine(writer.printed()).msg
      }

      async function kafkaTopics(): Promise<string[]> {
        const admin = new Admin({ clientId: 'test', bootstrapBrokers: [...kafka.brokers] })
        const names = await admin.listTopics()
        await admin.close()
        return names
      }

      test('a writer that can start is well, before its first start and after; nothing is changed', async () => {
        const first = await examined(['writer', 'relational'], environment)
        expect(statuses(first.found)).toEqual(['options ok', 'addresses ok', 'log ok', 'store ok'])
        expect(first.code).toBe(0)
        expect(first.found[2]!.detail).toMatch(new RegExp(`: ${topic} \\(2 partitions\\); 2 workers instead of 3 \\(workers.count\\)`))
        expect(first.found[3]!.detail).toMatch(/^a start of this writer prepares it: the store lacks the migrations/)
        expect(await database.query(`SELECT 1 FROM pg_namespace WHERE nspname = 'sluice'`)).toEqual([])
        expect((await kafkaTopics()).filter(name => name.includes('dead-letters'))).toEqual([])

        const writer = await startWriter(environment)
        await untilReady(writer)
        const beside = await examined(['writer', 'postgres'], { ...environment, SVC_INTERNAL_LISTEN: new URL(writer.internalUrl).host })
        expect(statuses(beside.found)).toEqual(['options ok', 'addresses ok', 'addresses warn', 'log ok', 'store ok'])
        expect(beside.found[2]!.detail).toMatch(/^port \d+ on 127\.0\.0\.1 is in use .*; nothing is wrong if that process is this role$/)
        expect(beside.found[4]!.detail).toMatch(/^PostgreSQL \d+/)
        expect(beside.code).toBe(0)
        expect(await writer.stop()).toBe(0)
      })

      test.each<[string, () => Promise<Environment>, string, RegExp]>([
        [
          'a wrong grant in PostgreSQL',
          async () => {
            await database.query(`CREATE ROLE clerk LOGIN`)
            await database.query('GRANT USAGE ON SCHEMA public, sluice, formats TO clerk')
            await database.query('GRANT SELECT ON ALL TABLES IN SCHEMA sluice, formats TO clerk')
            const url = new URL(environment['SVC_RELATIONAL_URL']!)
            url.username = 'clerk'
            return { SVC_RELATIONAL_URL: url.href }
          },
          'store',
          /^PostgreSQL denied access to the table \w+ .*: GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA sluice TO "clerk"$/,
        ],
        [
          'a wrong topic',
          async () => ({ SVC_LOG_TOPIC: 'mesages' }),
          'log',
          /^the topic mesages does not exist: create it .*or correct log\.topic \(SVC_LOG_TOPIC\)$/,
        ],
        [
          'a topic of dead letters that the user may only read',
          async () => {
            const deadLetters = `${topic}.dead-letters.relational`
            const admin = new Admin({ clientId: 'test', bootstrapBrokers: [...kafka.brokers] })
            const onTopic = {
              resourceType: ResourceTypes.TOPIC,
              resourceName: deadLetters,
              resourcePatternType: ResourcePatternTypes.LITERAL,
              principal: `User:${kafka.secured.username}`,
              host: '*',
              operation: AclOperations.READ,
              permissionType: AclPermissionTypes.ALLOW,
            }
            await admin.createAcls({ creations: [onTopic] })
            await admin.close()
            return {
              SVC_LOG_BROKERS: kafka.secured.sasl.join(),
              SVC_LOG_SASL_MECHANISM: 'plain',
              SVC_LOG_SASL_USERNAME: kafka.secured.username,
              SVC_LOG_SASL_PASSWORD: kafka.secured.password,
            }
          },
          'log',
          /^no permission to write the topic \S+\.dead-letters\.relational: grant it \(kafka-acls\.sh .*--operation write/,
        ],
      ])('%s is found, with what to do, and ends a start with the same sentence', async (_name, build, at, sentence) => {
        const changed = await build()
        const { code, found } = await examined(['writer', 'relational'], { ...environment, ...changed })
        expect([code, found.filter(({ status }) => status !== 'ok')]).toEqual([
          1,
          [{ check: at, status: 'fault', detail: expect.stringMatching(sentence) }],
        ])
        expect(await startFailure(changed)).toBe(found.find(({ check }) => check === at)!.detail)
      })

      test('a table that another session has locked is away, and the doctor ends', async () => {
        await database.execute('CREATE SCHEMA control_plane; CREATE TABLE control_plane.migrations (name text)')
        await database.transaction(async transaction => {
          await transaction.execute('LOCK TABLE sluice.logs, control_plane.migrations')
          const [writer, api] = await Promise.all([
            examined(['writer', 'relational'], environment),
            examined(['api'], apiEnvironment(environment['SVC_RELATIONAL_URL']!)),
          ])
          const awayIn = (check: string, fact: RegExp) => ({ check, status: 'away', detail: expect.stringMatching(fact) })
          expect([writer.code, writer.found.at(-1)]).toEqual([1, awayIn('store', /^PostgreSQL is away \(57014 .*correct store\.url/)])
          const late = /^PostgreSQL is away \(no answer within 20 s\): .*correct database\.url/
          expect([api.code, api.found.at(-1)]).toEqual([1, awayIn('database', late)])
        })
      })

      test('options that cannot be loaded are all that is checked', async () => {
        const { code, found } = await examined(['api'], { SVC_DATABASE_URL: environment['SVC_RELATIONAL_URL']! })
        expect([code, found]).toEqual([1, [{ check: 'options', status: 'fault', detail: expect.stringMatching(/SVC_MASTER_KEY/) }]])
      })

      test('an api is well, and a missing database is a fault', async () => {
        const own = apiEnvironment(await postgres.createDatabase())
        const { code, found } = await examined(['api'], own)
        expect([code, statuses(found)]).toEqual([0, ['options ok', 'addresses ok', 'database ok']])
        expect(found[2]!.detail).toMatch(/^PostgreSQL \d+.*; a start applies \d+ migrations$/)
        const absent = new URL(own['SVC_DATABASE_URL']!)
        absent.pathname = '/absent'
        const lacking = await examined(['api'], { ...own, SVC_DATABASE_URL: absent.href })
        expect(lacking.found[2]).toMatchObject({ status: 'fault', detail: expect.stringMatching(/does not exist .*database\.url/) })
      })

      test('the data folder of up is not touched', async () => {
        const { code, found } = await examined(['up'], { SVC_DATA_FOLDER: `${temporaryFolder()}/a/b`, SVC_MQTT_ENABLED: 'false' })
        expect([code, statuses(found)]).toEqual([0, ['options ok', 'addresses ok', 'folder ok']])
      })

      test('a broker and a control plane that are away are found beside each other, and what the tool cannot check ends with 2', async () => {
        await kafka.kill()
        const { code, found } = await examined(['ingest'], { ...environment, SVC_CONTROL_URL: 'http://127.0.0.1:1' })
        expect([code, statuses(found)]).toEqual([1, ['options ok', 'addresses ok', 'control_plane away', 'log away']])
        expect(found[2]!.detail).toMatch(
          /^the control plane is away \(.*ECONNREFUSED.*\): start it, or correct control\.url \(SVC_CONTROL_URL\)$/,
        )
        expect(found[3]!.detail).toMatch(/^Kafka is away \(.*ECONNREFUSED.*\): start it, or correct log\.brokers \(SVC_LOG_BROKERS\)$/)
        expect((await runSluice(['doctor', 'gardener'], {})).code).toBe(2)
      })
    }),
  { settings },
)
