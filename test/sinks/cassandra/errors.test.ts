// What errors of the driver mean, and that the guardrails in the sink's README are those of the code.

import { readFile } from 'node:fs/promises'
import { errors } from 'cassandra-driver'
import { expect, test } from 'vitest'
import { classify, explained, guardrails, isDataError, isSchemaFault } from '../../../sinks/cassandra/errors.ts'

const answer = (code: number, message = 'said') => new errors.ResponseError(code, message)
const meaningOf = (error: unknown) => (isDataError(error) ? 'data' : classify(error))
const who = { user: 'role', dataCenter: 'datacenter1', keyspace: 'plant' }

test('the guardrails in the README have the documented meanings', async () => {
  const readme = await readFile(new URL('../../../sinks/cassandra/README.md', import.meta.url), 'utf8')
  const rows = [...readme.matchAll(/^\| ((?:`[a-z_]+`(?:, )?)+) \| (data|transient) \|$/gm)]
  const named = rows.flatMap(([, names = '', meaning]) => names.split(', ').map(name => [name.slice(1, -1), meaning]))
  expect(named).toEqual(Object.entries(guardrails))
  for (const [name, meaning] of named) expect(meaningOf(answer(0x2200, `Guardrail ${name} violated: no`))).toBe(meaning)
})

test.each([
  ['an oversized mutation', answer(0x2200, 'Rejected an oversized mutation (8389716/8388608) for keyspace: k'), 'data'],
  ['a request that is too big', answer(0x2200, 'Request is too big: length 17825901 exceeds maximum allowed length 16777216.'), 'data'],
  ['a key that is too long', answer(0x2200, 'Key length of 65540 is longer than maximum of 65535'), 'data'],
  [
    'a value that an index of an operator has no room for',
    answer(0x2200, 'Cannot index value of size 70000 for index text on k.messages(string_value) (maximum allowed size=65535)'),
    'data',
  ],
  ['a batch that is too large', answer(0x2200, 'Batch too large'), 'data'],
  ['a guardrail for values', answer(0x2200, 'Guardrail column_value_size violated: Value of column payload has size 2MiB'), 'data'],
  ['a guardrail for texts', answer(0x2200, 'Guardrail column_text_value_size violated: Value of column payload has size 2MiB'), 'data'],
  [
    'a guardrail for full disks',
    answer(0x2200, 'Guardrail replica_disk_usage violated: Write request failed because disk usage exceeds failure threshold'),
    'transient',
  ],
  ['a guardrail for tables', answer(0x2200, 'Guardrail tables violated: Cannot have more than 5 tables'), 'systemic'],
  ['a guardrail for consistencies', answer(0x2200, 'Guardrail write_consistency_levels violated: not LOCAL_QUORUM'), 'systemic'],
  ['an unknown guardrail', answer(0x2200, 'Guardrail constructor violated: no'), 'systemic'],
  ['a table that is missing', answer(0x2200, 'table messages does not exist'), 'systemic'],
  ['a value that cannot be encoded', new TypeError("Not a valid blob, expected Buffer obtained 'abc'"), 'data'],
  ['a number that does not fit', Object.assign(new RangeError('The value is out of range'), { code: 'ERR_OUT_OF_RANGE' }), 'data'],
  ['a fault of ours', new TypeError("Cannot read properties of undefined (reading 'length')"), 'systemic'],
  ['roles that cannot be read', answer(0x0100, 'Unable to perform authentication: Cannot achieve consistency level QUORUM'), 'transient'],
  ['a socket that was closed', Object.assign(new Error('Socket was closed'), { name: 'DriverError' }), 'transient'],
  ['a name that is not found', Object.assign(new Error('getaddrinfo'), { code: 'ENOTFOUND' }), 'transient'],
  [
    'a certificate that is not believed',
    Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }),
    'systemic',
  ],
])('%s', (_what, error, meaning) => {
  expect(meaningOf(error)).toBe(meaning)
})

test('a node that refuses the connection outweighs nodes that are down', () => {
  const away = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
  const nodes = (inner: Record<string, unknown>) => new errors.NoHostAvailableError(inner)
  expect(classify(nodes({ a: away, b: 'Host considered as DOWN' }))).toBe('transient')
  expect(classify(nodes({}))).toBe('transient')
  const refused = nodes({ a: away, b: new errors.AuthenticationError('Provided username role and/or password are incorrect') })
  expect(classify(refused)).toBe('systemic')
  expect(explained(refused, who)).toMatchObject({
    message: expect.stringMatching(/refused the role "role".*store\.password/) as string,
    cause: refused,
  })
})

test('a statement that no longer fits the schema is distinguished from a node that is down', () => {
  expect(isSchemaFault(answer(0x2200))).toBe(true)
  expect(isSchemaFault(new errors.NoHostAvailableError({ a: answer(0x2500) }))).toBe(true)
  expect(isSchemaFault(new errors.NoHostAvailableError({ a: new Error('away') }))).toBe(false)
  expect(isSchemaFault(answer(0x1100))).toBe(false)
  expect(isSchemaFault(answer(0x2200, 'Guardrail write_consistency_levels violated: not LOCAL_QUORUM'))).toBe(false)
})

test('systemic errors are explained, and transient ones unchanged', () => {
  const timeout = answer(0x1100)
  expect(explained(timeout, who)).toBe(timeout)
  expect(explained(answer(0x2100, 'User role has no CREATE permission'), who)).toMatchObject({
    message: expect.stringMatching(
      /no CREATE permission\): grant the role in store\.url \(SVC_WIDECOLUMN_URL\) the permissions: GRANT .*"plant"/,
    ) as string,
  })
  expect(explained(answer(0x2200, 'Guardrail tables violated: Cannot have more than 5 tables'), who)).toMatchObject({
    errorClass: 'systemic',
    message: expect.stringContaining('raise "tables" in the cassandra.yaml of the nodes') as string,
  })
  const center = new errors.ArgumentError("localDataCenter was configured as 'x', but only found hosts in data centers: [dc1, dc2]")
  expect(explained(center, { ...who, dataCenter: 'x' })).toMatchObject({
    message: 'the cluster has no data center "x", only dc1, dc2: set ?dc= of store.url (SVC_WIDECOLUMN_URL) to one of these',
  })
})

test('a node without a connection is down, which stops no writer', () => {
  const away = new errors.NoHostAvailableError({ '127.0.0.1:9042': new Error('No connection available') })
  expect(classify(away)).toBe('transient')
  expect(explained(away, who)).toBe(away)
})
