// Checks certificates with OpenSSL: a different implementation than the one that makes them.

import { execFile } from 'node:child_process'
import { createPublicKey } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { temporaryFolder } from '../../temporary-folder.ts'

/** Runs a command, whatever its exit code. @returns what it printed */
export function openssl(args: readonly string[], input = ''): Promise<{ readonly ok: boolean; readonly output: string }> {
  return new Promise(resolve => {
    const child = execFile('openssl', args, (error, stdout, stderr) => resolve({ ok: error === null, output: stdout + stderr }))
    // A command that does not read its input may have ended.
    child.stdin!.on('error', () => undefined).end(input)
  })
}

interface Verification {
  /** PEM of the trusted certificates. */
  readonly root: string
  /** PEM of the intermediate certificates. */
  readonly chain?: readonly string[]
  /** DER. Without one revocations are not checked. */
  readonly crl?: Buffer
}

/** `openssl verify` as a server of TLS clients would. @returns `OK`, or what is wrong */
export async function verify(certificate: string, { root, chain = [], crl }: Verification): Promise<string> {
  const folder = temporaryFolder()
  const file = (name: string, text: string | Buffer): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const args = ['verify', '-purpose', 'sslclient', '-x509_strict', '-CAfile', file('root.pem', root)]
  if (chain.length > 0) args.push('-untrusted', file('chain.pem', chain.join('\n')))
  if (crl !== undefined) args.push('-crl_check', '-CRLfile', file('crl.pem', crlPem(crl)))
  const { ok, output } = await openssl([...args, file('certificate.pem', certificate)])
  return ok ? 'OK' : (/error \d+ at \d+ depth lookup: ?(.+)/.exec(output)?.[1] ?? output)
}

export function crlPem(der: Buffer): string {
  return `-----BEGIN X509 CRL-----\n${der.toString('base64')}\n-----END X509 CRL-----\n`.replace(/(.{64})(?=.)/g, '$1\n')
}

/** The text of a CRL in DER, with the serials that it names in lower-case hex. */
export async function readCrl(
  der: Buffer,
): Promise<{ readonly serials: readonly string[]; readonly number: bigint; readonly text: string }> {
  const { output: text } = await openssl(['crl', '-inform', 'PEM', '-noout', '-text'], crlPem(der))
  const serials = [...text.matchAll(/Serial Number: ([0-9A-F]+)/g)].map(([, serial]) => serial!.toLowerCase())
  const number = /X509v3 CRL Number:\s*\n\s*(\w+)/.exec(text)?.[1] ?? '0'
  return { serials, number: BigInt(number), text }
}

/** A signing request for a new key, made by OpenSSL. @param subject `/CN=name`, or `/` for none */
export async function makeCsr(
  subject: string,
  kind: readonly string[] = ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256'],
  more: readonly string[] = [],
  folder = temporaryFolder(),
) {
  const key = join(folder, 'key.pem')
  const { ok, output } = await openssl(['req', '-new', '-newkey', ...kind, '-nodes', '-keyout', key, '-subj', subject, ...more])
  if (!ok) throw new Error(output)
  const publicKey = createPublicKey(await readFile(key)).export({ format: 'der', type: 'spki' })
  const csr = /-----BEGIN[\s\S]+REQUEST-----\n/.exec(output)![0]
  return { csr, key, request: { csr: async () => csr, publicKey } }
}
