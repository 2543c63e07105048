// The section `certificates`: a fault stops the start with a sentence that shows no secret.

import { writeFileSync } from 'node:fs'
import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { loadOptions } from '../../../config/options/options.ts'
import { certificatesFaults, certificatesOptions } from '../../../control-plane/certificates/options.ts'
import { temporaryFolder } from '../../temporary-folder.ts'

const schema = Type.Object({ certificates: certificatesOptions })
const faultsOf = (environment: Record<string, string>): string[] =>
  certificatesFaults(loadOptions(schema, { environment }).certificates).map(({ place, problem }) => `${place}: ${problem}`)
const stepCa = { SVC_CERTIFICATES_BACKEND: 'step-ca', SVC_CERTIFICATES_STEP_CA_KEY: '{}' }
const vault = { SVC_CERTIFICATES_BACKEND: 'vault', SVC_CERTIFICATES_VAULT_TOKEN: 's.xxxx' }

test('the defaults are the built-in PKI and 2400 hours', () => {
  const { mode, backend, ttlHours } = loadOptions(schema, { environment: {} }).certificates
  expect([mode, backend, ttlHours, faultsOf({})]).toEqual(['pki', 'builtin', 2400, []])
})

test.each<[string, Record<string, string>, string[]]>([
  ['step-ca with a key', stepCa, []],
  ['step-ca without a key', { ...stepCa, SVC_CERTIFICATES_STEP_CA_KEY: undefined! }, ['certificates.step_ca.key: is needed']],
  [
    'step-ca without TLS',
    { ...stepCa, SVC_CERTIFICATES_STEP_CA_URL: 'http://ca' },
    ['certificates.step_ca.url: is not the address of an HTTPS server'],
  ],
  ['vault with a token', vault, []],
  ['vault without a token', { ...vault, SVC_CERTIFICATES_VAULT_TOKEN: undefined! }, ['certificates.vault.token: is needed']],
  [
    'a password in its address',
    { ...vault, SVC_CERTIFICATES_VAULT_URL: 'https://a:secret@vault' },
    ['certificates.vault.url: is not the address'],
  ],
  ['mode development, which uses neither', { ...stepCa, SVC_CERTIFICATES_STEP_CA_URL: 'x', SVC_CERTIFICATES_MODE: 'development' }, []],
  ['a default beyond the maximum', { SVC_CERTIFICATES_TTL_HOURS_MAX: '100' }, ['certificates.ttl_hours: is more than']],
  ['a CRL address that is not a URL', { SVC_CERTIFICATES_CRL_URL: 'crl' }, ['certificates.crl_url: is not the address']],
])('%s', (_name, environment, faults) => {
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== undefined))
  const found = faultsOf(given)
  expect(found).toEqual(faults.map(fault => expect.stringContaining(fault)))
  expect(found.join()).not.toContain('secret')
})

test("the path of the vault token's file is kept, and the file is also read at the start", () => {
  const path = `${temporaryFolder()}/token`
  writeFileSync(path, 's.xxxx\n')
  const environment = { SVC_CERTIFICATES_BACKEND: 'vault', SVC_CERTIFICATES_VAULT_TOKEN_FILE: path }
  expect(loadOptions(schema, { environment }).certificates.vault).toMatchObject({ token: 's.xxxx', tokenFile: path })
  expect(faultsOf(environment)).toEqual([])
})
