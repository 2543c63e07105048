// `npm run schemathesis`: sends valid and invalid requests from /openapi.json to a running platform, and checks the answers against it.

import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { call, expectStatus, makeSite, publish, type Site } from '../up/operator.ts'

const usage = `Usage: npm run schemathesis -- --program PATH [options]

Runs Schemathesis (https://schemathesis.readthedocs.io) against a platform, which fills with what it makes: start one on a folder of its own.
SVC_ADMIN_EMAIL and SVC_ADMIN_PASSWORD say who its administrator is.

  --program PATH   where Schemathesis is: the program st
  --url URL        where the platform is                                                  (http://127.0.0.1:8080)
  --as WHO         administrator, or user: who registered, and owns a thing and a channel  (administrator)
  --seconds N      how long it runs                                                       (300)
  --seed N         the same one makes the same requests                                   (a random one)

Exit code 0: every answer is as described. 1: one is not, and is printed. 2: it was called wrongly.
`

const callers = ['administrator', 'user'] as const

/** Operations that would end the run, or change the caller. */
const leftOut = ['changePassword', 'resetPassword', 'followMessages']
/**
 * These accept every request that is valid by its schema. Others have rules that a schema cannot express: a body without a key `__proto__` and without
 * too large numbers in metadata, or filters that do not contradict each other.
 */
const plainOperations = ['connectOne', 'disconnectOne', 'explainPolicy', 'getHealth', 'getLiveness', 'getReadiness']

function configuration(authorization: string, { owner, channel, device }: Site): string {
  const text = JSON.stringify
  return `
headers = { Authorization = ${text(authorization)} }
# No store keeps them.
generation.allow-x00 = false
[checks]
# TRACE ends in Node.js, and /things/bulk is a /things/{thing} as well.
unsupported_method.enabled = false
allow_header_conformance.enabled = false
# An id of nothing and one of another's are the same 403.
use_after_free.enabled = false
ensure_resource_availability.enabled = false
object_level_authorization.enabled = false
positive_data_acceptance.enabled = false
negative_data_rejection.expected-statuses = ["400", "401", "403", "404", "406", "409", "412", "413", "415", "422", "429", "431"]
[[operations]]
include-operation-id = ${text(leftOut)}
enabled = false
[[operations]]
include-operation-id = ${text(plainOperations)}
checks.positive_data_acceptance.enabled = true
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "429"]
[[operations]]
# A filter that is empty is none.
include-operation-id-regex = "^list"
checks.negative_data_rejection.enabled = false
[[operations]]
include-tag = "messages"
headers = { Authorization = ${text(device)} }
parameters = { channel = ${text(channel)} }
# What is in a payload is looked at when it is stored.
checks.negative_data_rejection.enabled = false
[[operations]]
include-tag = "reading"
headers = { Authorization = ${text(owner)} }
parameters = { channel = ${text(channel)} }
`
}

const { values } = parseArgs({
  options: {
    program: { type: 'string' },
    url: { type: 'string', default: 'http://127.0.0.1:8080' },
    as: { type: 'string', default: 'administrator' },
    seconds: { type: 'string', default: '300' },
    seed: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
})
const { SVC_ADMIN_EMAIL: email, SVC_ADMIN_PASSWORD: password } = process.env
const isRight = values.program !== undefined && email !== undefined && password !== undefined && callers.some(one => one === values.as)
if (values.help === true || !isRight) {
  console.log(usage)
  process.exit(values.help === true ? 0 : 2)
}

const { url } = values
const { json } = await expectStatus(call(url, 'POST', '/tokens', { body: { email, password } }), 201)
const site = await makeSite(url)
await expectStatus(publish(url, site, [{ n: 'temperature', u: 'Cel', v: 21.5 }]), 202)
const folder = await mkdtemp(join(tmpdir(), 'sluice-schemathesis-'))
const file = join(folder, 'schemathesis.toml')
await writeFile(file, configuration(values.as === 'user' ? site.owner : `Bearer ${String(json!['token'])}`, site), { mode: 0o600 })
const words = ['--config-file', file, 'run', `${url}/openapi.json`, '--max-time', values.seconds]
const seeded = values.seed === undefined ? [] : ['--seed', values.seed]
const child = spawn(values.program!, [...words, '--continue-on-failure', '--warnings', 'off', ...seeded], {
  stdio: 'inherit',
  // It keeps its results in its working directory.
  cwd: folder,
  env: { ...process.env, SCHEMATHESIS_HOOKS: join(import.meta.dirname, 'serializers.py') },
})
process.exitCode = await new Promise<number>((resolve, reject) => child.on('error', reject).on('close', code => resolve(code ?? 1)))
await rm(folder, { recursive: true })
