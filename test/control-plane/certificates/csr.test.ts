// Certificate signing requests of clients, which may be any bytes, and those that are made here.

import { createPrivateKey, createPublicKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { assert, asyncProperty, nat, oneof, string, uint8Array } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { checkCsr, csrBytesMax, openNewCsrs } from '../../../control-plane/certificates/csr.ts'
import { csrExample } from '../../../control-plane/certificates/schema.ts'
import { newThingId, newUserId } from '../../../control-plane/ids.ts'
import { itself } from '../../../control-plane/writes.ts'
import { makeCsr, openssl } from './openssl.ts'

const derOf = (pem: string): Buffer => Buffer.from(pem.replace(/-----.+-----/g, ''), 'base64')
const pemOf = (der: Uint8Array): string =>
  `-----BEGIN CERTIFICATE REQUEST-----\n${Buffer.from(der).toString('base64')}\n-----END CERTIFICATE REQUEST-----\n`
/** @returns the detail of the refusal, or the key's type without one */
const outcomeOf = (pem: string): Promise<string> =>
  checkCsr(pem, '/body/csr').then(
    ({ keyType }) => keyType,
    (error: unknown) => {
      const { code, faults } = error as { code: string; faults: { pointer: string; detail: string }[] }
      expect([code, faults]).toEqual(['malformed_request', [{ pointer: '/body/csr', detail: expect.any(String) }]])
      return faults[0]!.detail
    },
  )
let made: Promise<string> | undefined
/** A valid one, of P-256. */
const goodCsr = (): Promise<string> => (made ??= makeCsr('/CN=device').then(({ csr }) => csr))

test.each<[string, string[], string[], string]>([
  ['RSA of 2048 bits', ['rsa:2048'], [], 'rsa'],
  ['RSA of an odd size', ['rsa:2056'], [], 'rsa'],
  ['P-384', ['ec', '-pkeyopt', 'ec_paramgen_curve:P-384'], ['-sha384'], 'ec'],
  ['P-521', ['ec', '-pkeyopt', 'ec_paramgen_curve:P-521'], ['-sha512'], 'ec'],
])('a key of %s is accepted', async (_name, kind, more, type) => {
  const { csr, key } = await makeCsr('/', kind, more)
  const checked = await checkCsr(csr, '/body/csr')
  expect([checked.keyType, checked]).toEqual([type, expect.not.objectContaining({ privateKey: expect.anything() })])
  expect(checked.publicKey).toEqual(createPublicKey(readFileSync(key)).export({ format: 'der', type: 'spki' }))
})

test.each<[string, string[], string[], string]>([
  ['RSA of 1024 bits', ['rsa:1024'], [], 'has an RSA key of 1024 bits'],
  ['RSA of 2040 bits', ['rsa:2040'], [], 'has an RSA key of 2040 bits'],
  ['RSA with the exponent 3', ['rsa:2048', '-pkeyopt', 'rsa_keygen_pubexp:3'], [], 'unusual exponent'],
  ['RSA with an enormous exponent', ['rsa:2048', '-pkeyopt', 'rsa_keygen_pubexp:18446744073709551617'], [], 'unusual exponent'],
  ['RSA-PSS', ['rsa-pss'], [], 'unsupported kind'],
  ['Ed25519', ['ed25519'], [], 'unsupported kind'],
  ['secp256k1', ['ec', '-pkeyopt', 'ec_paramgen_curve:secp256k1'], [], 'unsupported curve'],
  ['a curve that is written out', ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-pkeyopt', 'ec_param_enc:explicit'], [], 'make it'],
  ['P-256, signed with SHA-1', ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256'], ['-sha1'], 'weak hash'],
])('a key of %s is refused', async (_name, kind, more, detail) => {
  expect(await outcomeOf((await makeCsr('/', kind, more)).csr)).toContain(detail)
})

test('an RSA key of 8192 bits is refused before its signature is checked', async () => {
  const pem = readFileSync(new URL('fixtures/rsa-8192.csr', import.meta.url), 'utf8')
  const broken = derOf(pem)
  broken[broken.length - 1]! ^= 1
  for (const csr of [pem, pemOf(broken)]) expect(await outcomeOf(csr)).toContain('has an RSA key of 8192 bits')
})

test('a changed signature, or one of another key, is refused', async () => {
  const der = derOf(await goodCsr())
  const signature = Buffer.from(der)
  signature[signature.length - 1]! ^= 1
  const subject = Buffer.from(der)
  subject[der.indexOf('device')]! ^= 1
  for (const changed of [signature, subject]) expect(await outcomeOf(pemOf(changed))).toMatch(/is not signed by its own key|cannot be read/)
  expect(await outcomeOf(pemOf(subject))).toContain('is not signed by its own key')
})

test.each<[string, (pem: string) => string]>([
  ['nothing', () => ''],
  ['a certificate', pem => pem.replaceAll('CERTIFICATE REQUEST', 'CERTIFICATE')],
  ['two of them', pem => pem + pem],
  ['text around it', pem => `Data:\n${pem}`],
  ['invalid base64', pem => pem.replace('MI', '*')],
  ['no bytes', () => pemOf(new Uint8Array(0))],
  ['other ASN.1', () => pemOf(Buffer.from('3003020101', 'hex'))],
  ['half of one', pem => pemOf(derOf(pem).subarray(0, 100))],
  ['more behind it', pem => pemOf(Buffer.concat([derOf(pem), derOf(pem)]))],
  ['a nest of sequences', () => pemOf(nested(12_000))],
  ['a long list', () => pemOf(Buffer.concat([Buffer.from('30822ee0', 'hex'), Buffer.alloc(12_000, Buffer.from('0500', 'hex'))]))],
  ['a length beyond the end', () => pemOf(Buffer.from('3084ffffffff', 'hex'))],
  ['spaces', () => ' '.repeat(csrBytesMax)],
  ['a begin and spaces', () => `-----BEGIN CERTIFICATE REQUEST-----${' '.repeat(csrBytesMax - 100)}`],
])('%s: refused', async (_name, make) => {
  expect(await outcomeOf(make(await goodCsr()))).toMatch(/is not a CSR|cannot be read|is not signed by its own key/)
})

function nested(bytes: number): Buffer {
  let inner = Buffer.from('0500', 'hex')
  while (inner.length < bytes) {
    const length = inner.length
    const head = length < 0x80 ? [0x30, length] : length < 0x100 ? [0x30, 0x81, length] : [0x30, 0x82, length >> 8, length & 0xff]
    inner = Buffer.concat([Buffer.from(head), inner])
  }
  return inner
}

test('a request with NEW in its PEM label, and with other line ends, is the same', async () => {
  const good = await goodCsr()
  const odd = `\r\n${good.replaceAll('CERTIFICATE REQUEST', 'NEW CERTIFICATE REQUEST').replaceAll('\n', '\r\n')}  `
  const [fromOdd, fromGood] = await Promise.all([odd, good].map(async pem => (await checkCsr(pem, '')).csr()))
  expect(fromOdd).toBe(fromGood)
})

test('any bytes are accepted or refused with a sentence', async () => {
  const good = await goodCsr()
  const changes = oneof(uint8Array({ maxLength: 4 }), uint8Array({ minLength: 1, maxLength: 64 }))
  const changed = asyncProperty(nat(), nat(8), changes, async (at, removed, bytes) => {
    const der = derOf(good)
    const place = at % der.length
    await outcomeOf(pemOf(Buffer.concat([der.subarray(0, place), bytes, der.subarray(place + removed)])))
  })
  await assert(changed, { numRuns: 300 })
  await assert(
    asyncProperty(
      oneof(string(), uint8Array({ maxLength: 300 })),
      async text => void (await outcomeOf(typeof text === 'string' ? text : pemOf(text))),
    ),
  )
})

describe('made here', () => {
  const caller = { ...itself, user: newUserId() }

  test.each([{ type: 'ec' }, { type: 'rsa', bits: 2048 }] as const)(
    'one of %o has its own signature and its private key, as PKCS #8',
    async key => {
      const thing = newThingId()
      const made = await openNewCsrs().make(caller, thing, key)
      const { publicKey, privateKey = '', keyType } = made
      const csr = await made.csr()
      expect([keyType, await outcomeOf(csr)]).toEqual([key.type, key.type])
      expect(privateKey).toMatch(/^-----BEGIN PRIVATE KEY-----/)
      expect(createPublicKey(createPrivateKey(privateKey)).export({ format: 'der', type: 'spki' })).toEqual(publicKey)
      expect((await openssl(['req', '-noout', '-subject', '-verify'], csr)).output).toBe(
        `subject=CN = ${thing}\nCertificate request self-signature verify OK\n`,
      )
    },
  )
})

test('the example of the description is accepted as it stands', async () => {
  expect(await outcomeOf(csrExample)).toBe('ec')
})
