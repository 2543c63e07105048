// A Cassandra whose operator has set limits: which of them are about a message, which about its format, and which about neither.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/cassandra/connection.ts'
import { classify } from '../../../sinks/cassandra/errors.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { openSink } from '../../../sinks/cassandra/sink.ts'
import type { Rejection } from '../../../sinks/sink.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithCassandra } from '../../servers/cassandra.ts'
import { batchOf, plain, type TestMessage } from '../batches.ts'
import { type ConfiguredCassandra, startConfiguredCassandra } from './configured-server.ts'
import { identity, optionsFor, rowsOf } from './store.ts'

const never = new AbortController().signal
/** Eight are the sink's own. */
const tablesMax = 9
const role = { user: 'writer', password: 'p' }

// Asks for the shared server too, since that installs what both need.
describeWithCassandra('a Cassandra with limits', () => {
  let server: ConfiguredCassandra
  let options: SinkOptions
  let connection: Connection
  const rejections: Rejection[] = []
  const keep = async (some: readonly Rejection[]): Promise<void> => void rejections.push(...some)

  beforeAll(async () => {
    // No limit binds a superuser, which everybody is who need not log in.
    server = await startConfiguredCassandra(
      yaml => `${yaml
        .replaceAll('AllowAllAuthenticator', 'PasswordAuthenticator')
        .replaceAll('AllowAllAuthorizer', 'CassandraAuthorizer')}role_manager: CassandraRoleManager
column_value_size_fail_threshold: 1KiB
tables_fail_threshold: ${tablesMax}
page_size_fail_threshold: 5000
write_consistency_levels_disallowed: [TWO]
`,
      "Created default superuser role 'cassandra'",
    )
    const operator = await openConnection(optionsFor(server.contactPoint, { user: 'cassandra', password: 'cassandra' }), 'operator')
    await operator.change("CREATE ROLE writer WITH PASSWORD = 'p' AND LOGIN = true")
    await operator.change('GRANT ALL PERMISSIONS ON ALL KEYSPACES TO writer')
    await operator.close()
    options = optionsFor(server.contactPoint, role)
    connection = await openConnection(options, 'writer')
  })
  afterAll(async () => {
    await connection.close()
    await server.stop()
  })

  const document = (offset: number, format: string): TestMessage => ({ offset, documents: [{ format, payload: {} }] })

  test('rejects a message for a value that is too large, and a format for which it has no table left', async () => {
    const sink = await withNumbers(openSink({ connection, options, logs: [identity] }))
    const large: TestMessage = { offset: 1, records: [{ value: 1 }, { stringValue: 'x'.repeat(2_000) }] }
    const batch = batchOf(0, 5, [plain(0), large, document(2, 'first'), document(3, 'second'), plain(4)])
    expect(await sink.write(sink.encode(batch), keep, never)).toMatchObject([{ received: 5, stored: 3, deadLettered: 2 }])
    expect(rejections.map(({ message, rule, reason }) => [message, rule, /Guardrail (\w+)/.exec(reason)?.[1]])).toEqual([
      [3, 'format-not-allowed', 'tables'],
      [1, 'store-refused', 'column_value_size'],
    ])
    expect((await rowsOf(connection)).map(({ position }) => Number(position & 0xffn))).toEqual([0, 1, 2, 4])
  })

  test('stops a writer whose consistency it forbids, and rejects nothing', async () => {
    const own: SinkOptions = { ...options, consistency: 'TWO' }
    const other = await openConnection(own, 'writer')
    try {
      const sink = await withNumbers(openSink({ connection: other, options: own, logs: [identity] }))
      const before = rejections.length
      const error = await sink.write(sink.encode(batchOf(5, 6, [plain(5)])), keep, never).catch((error: unknown) => error)
      expect(error).toMatchObject({
        message: expect.stringMatching(/Guardrail write_consistency_levels violated.*raise "write_consistency_levels"/) as string,
      })
      expect(classify(error)).toBe('systemic')
      expect(rejections).toHaveLength(before)
    } finally {
      await other.close()
    }
  })

  test('stops a writer whose own tables exceed its limit', async () => {
    const own = optionsFor(server.contactPoint, role)
    const other = await openConnection(own, 'writer')
    try {
      const error = await withNumbers(openSink({ connection: other, options: own, logs: [identity] })).catch((error: unknown) => error)
      expect(error).toMatchObject({ message: expect.stringMatching(/Guardrail tables violated.*raise "tables"/) as string })
      expect(classify(error)).toBe('systemic')
    } finally {
      await other.close()
    }
  })
})
