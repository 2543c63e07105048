// What errors of the driver mean, and that the table in the sink's README says the same.

import { readFile } from 'node:fs/promises'
import { errors } from 'cassandra-driver'
import { expect, test } from 'vitest'
import { classify, errorRows, explained, guardrails, isSchemaFault, meaningOf } from '../../../sinks/cassandra/errors.ts'
import { SinkError } from '../../../sinks/sink-error.ts'

const answer = (code: number, message = 'said') => new errors.ResponseError(code, message)
const who = { user: 'role', dataCenter: 'datacenter1', keyspace: 'plant' }
const hex = (error: number | string): string => (typeof error === 'number' ? `0x${error.toString(16).padStart(4, '0')}` : error)

test('the table in the README is that of the code', async () => {
  const readme = await readFile(new URL('../../../sinks/cassandra/README.md', import.meta.url), 'utf8')
  const rows = [...readme.matchAll(/^\| `(0x[0-9a-f]{4}|\w+Error|[A-Z][a-z ]+)` \| (.*) \| (transient|systemic) \|$/gm)].map(
    ([, error, name, meaning]) => [error, name, meaning],
  )
  expect(rows).toEqual(errorRows.map(({ error, name, meaning }) => [hex(error), name, meaning]))
})

test('the guardrails in the README mean what it says', async () => {
  const readme = await readFile(new URL('../../../sinks/cassandra/README.md', import.meta.url), 'utf8')
  const rows = [...readme.matchAll(/^\| ((?:`[a-z_]+`(?:, )?)+) \| (data|transient) \|$/gm)]
  const named = rows.flatMap(([, names = '', meaning]) => names.split(', ').map(name => [name.slice(1, -1), meaning]))
  expect(named).toEqual(Object.entries(guardrails))
  for (const [name, meaning] of named) expect(meaningOf(answer(0x2200, `Guardrail ${name} violated: no`))).toBe(meaning)
})

test.each(errorRows.filter(({ error }) => typeof error === 'number'))('an answer $error means $meaning', ({ error, meaning }) => {
  expect(meaningOf(answer(error as number))).toBe(meaning)
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
  ['a guardrail that nobody knows', answer(0x2200, 'Guardrail constructor violated: no'), 'systemic'],
  ['a table that is missing', answer(0x2200, 'table messages does not exist'), 'systemic'],
  ['a value that cannot be encoded', new TypeError("Not a valid blob, expected Buffer obtained 'abc'"), 'data'],
  ['a number that does not fit', Object.assign(new RangeError('The value is out of range'), { code: 'ERR_OUT_OF_RANGE' }), 'data'],
  ['a fault of ours', new TypeError("Cannot read properties of undefined (reading 'length')"), 'systemic'],
  ['roles that cannot be read', answer(0x0100, 'Unable to perform authentication: Cannot achieve consistency level QUORUM'), 'transient'],
  ['a socket that was closed', Object.assign(new Error('Socket was closed'), { name: 'DriverError' }), 'transient'],
  ['a pool without a connection', new Error('No connection available'), 'transient'],
  ['a connection that was closed', new Error('Connection closed'), 'transient'],
  ['a name that is not found', Object.assign(new Error('getaddrinfo'), { code: 'ENOTFOUND' }), 'transient'],
  [
    'a certificate that is not believed',
    Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }),
    'systemic',
  ],
  ['an abort', new DOMException('aborted', 'AbortError'), 'transient'],
  ['what nobody knows', new Error('something else'), 'systemic'],
  ['what is no error', 'text', 'systemic'],
  ['a sentence of ours', new SinkError('transient', 'wait'), 'transient'],
])('%s', (_what, error, meaning) => {
  expect(meaningOf(error)).toBe(meaning)
  expect(classify(error)).toBe(meaning === 'data' ? 'systemic' : meaning)
})

test('of nodes that could not be asked one that refuses us counts more than one that is away', () => {
  const away = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
  const nodes = (inner: Record<string, unknown>) => new errors.NoHostAvailableError(inner)
  expect(classify(nodes({ a: away, b: 'Host considered as DOWN' }))).toBe('transient')
  expect(classify(nodes({}))).toBe('transient')
  const refused = nodes({ a: away, b: new errors.AuthenticationError('Provided username role and/or password are incorrect') })
  expect(classify(refused)).toBe('systemic')
  expect(explained(refused, who)).toMatchObject({
    message: expect.stringMatching(/refuses the role "role".*store\.password/) as string,
    cause: refused,
  })
})

test('a statement that no longer fits is told from a node that is away', () => {
  expect(isSchemaFault(answer(0x2200))).toBe(true)
  expect(isSchemaFault(new errors.NoHostAvailableError({ a: answer(0x2500) }))).toBe(true)
  expect(isSchemaFault(new errors.NoHostAvailableError({ a: new Error('away') }))).toBe(false)
  expect(isSchemaFault(answer(0x1100))).toBe(false)
  expect(isSchemaFault(answer(0x2200, 'Guardrail write_consistency_levels violated: not LOCAL_QUORUM'))).toBe(false)
})

test('what can be mended is explained, and what passes by itself is left as it is', () => {
  const timeout = answer(0x1100)
  expect(explained(timeout, who)).toBe(timeout)
  expect(explained(answer(0x2100, 'User role has no CREATE permission'), who)).toMatchObject({
    message: expect.stringMatching(
      /no CREATE permission\): grant it to the role of store\.url \(SVC_WIDECOLUMN_URL\): GRANT .*"plant"/,
    ) as string,
  })
  expect(explained(answer(0x2200, 'Guardrail tables violated: Cannot have more than 5 tables'), who)).toMatchObject({
    errorClass: 'systemic',
    message: expect.stringContaining('raise the limit "tables"') as string,
  })
  const center = new errors.ArgumentError("localDataCenter was configured as 'x', but only found hosts in data centers: [dc1, dc2]")
  expect(explained(center, { ...who, dataCenter: 'x' })).toMatchObject({
    message: 'the cluster has the data centers dc1, dc2, and not "x": name one of them in ?dc= of store.url (SVC_WIDECOLUMN_URL)',
  })
})

test('a node to which the driver has no connection is away, and stops nobody', () => {
  const away = new errors.NoHostAvailableError({ '127.0.0.1:9042': new Error('No connection available') })
  expect([meaningOf(away), classify(away)]).toEqual(['transient', 'transient'])
  expect(explained(away, who)).toBe(away)
})
