// The options of `up`: invalid combinations of valid options.

import { expect, test } from 'vitest'
import { loadUpOptions } from '../../up-options.ts'

const faultsOf = (environment: Record<string, string>): string[] => {
  try {
    loadUpOptions({ environment })
  } catch (error) {
    return (error as Error).message.split('\n').slice(1)
  }
  return []
}

test('the defaults are valid, and bound the files of the log', () => {
  expect(faultsOf({})).toEqual([])
  expect(loadUpOptions({ environment: {} }).log.fileBytes).toBe(64 * 2 ** 30)
})

test('errors that would stop the start later are faults of the options, all reported together', () => {
  const faults = faultsOf({
    SVC_SUBSCRIBER_SUBJECTS: 'channels.>.x',
    SVC_STORE_RETENTION_FORMATS: 'events:1,events:2',
    SVC_BATCH_BYTES: '67108864',
    SVC_LOG_FETCH_BYTES: '67108864',
    SVC_INGEST_PAYLOAD_BYTES_MAX: '1048576',
    SVC_ADMIN_EMAIL: 'nonsense',
    SVC_POLICIES_STORE: 'openfga',
    SVC_CERTIFICATES_BACKEND: 'vault',
    SVC_PROVISION_USER: 'me@example.com',
  })
  expect(faults).toEqual([
    expect.stringMatching(/store\.retention_formats: it has "events" twice/),
    expect.stringMatching(/subscriber\.subjects: .*only the last part may be ">"/),
    expect.stringMatching(/workers\.memory_bytes: queues and batches add up to/),
    expect.stringMatching(/ingest\.payload_bytes_max: .*message\.payload_bytes of 262144/),
    expect.stringMatching(/policies\.store: .*leave it at relational, or start `\.\/sluice api`/),
    expect.stringMatching(/admin\.email: is not an email/),
    expect.stringMatching(/certificates\.vault\.token: is needed/),
    expect.stringMatching(/provision\.password: is missing/),
  ])
})

test("a short administrator's password is a fault, and no message contains it", () => {
  expect(faultsOf({ SVC_ADMIN_PASSWORD: 'short7x' }).join()).toMatch(/password/)
  expect(faultsOf({ SVC_ADMIN_PASSWORD: 'short7x' }).join()).not.toContain('short7x')
})

test('one environment for all processes contains the threads of writers, of which `up` has none', () => {
  expect(faultsOf({ SVC_WORKERS_COUNT: '2' })).toEqual([expect.stringMatching(/SVC_WORKERS_COUNT: unknown variable/)])
  const options = loadUpOptions({ environment: { SVC_WORKERS_COUNT: '2' }, otherVariables: ['SVC_WORKERS_COUNT'] })
  expect(options.workers).toEqual({ memoryBytes: 512 * 1024 * 1024 })
})
