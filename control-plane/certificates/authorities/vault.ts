// The authority is the PKI engine of a HashiCorp Vault or OpenBao server, over the HTTP API that both have.
//
// Documentation: "PKI secrets engine (API)", sections "Sign certificate", "Revoke certificate" and "Read issuer CRL"; "Token auth method (API)", section
// "Lookup a token (self)"; "HTTP API", section "HTTP status codes".

import { readFile } from 'node:fs/promises'
import { SecretError } from '../../../config/secrets.ts'
import { HttpError } from '../../../http/errors.ts'
import { readTlsFiles } from '../../../http/tls-files.ts'
import { type OutsideAnswer, type OutsideRequests, openOutsideRequests } from '../../outside/requests.ts'
import type { CertificatesOptions } from '../options.ts'
import { type Authority, authorityAway, authorityRefusal, crlBytesMax } from './authority.ts'

interface SignAnswer {
  readonly errors?: readonly string[]
  readonly data?: { readonly certificate?: string; readonly issuing_ca?: string; readonly ca_chain?: readonly string[] | null }
}

interface TokenAnswer {
  /** Both in seconds, and 0 for a token that does not end. */
  readonly data?: { readonly ttl?: number; readonly creation_ttl?: number }
}

/** Of the life of a token: agents renew or replace theirs before. */
const lastPart = 0.1
const tokenAdvice =
  'renew or replace the token (an agent does, in certificates.vault.token_file), and let it read auth/token/lookup-self, as the policy `default` does'

/** An operator's fault, though Vault answers it with 400 like a fault of the request. */
const unknownRole = /^unknown role:/i
const roleAdvice = 'create the role, or correct certificates.vault.role (SVC_CERTIFICATES_VAULT_ROLE)'

export function openVault(options: CertificatesOptions['vault']): Authority {
  const { url, mount, role, namespace, token = '', tokenFile, timeoutMs } = options
  const pki = `/v1/${mount}`
  let requests: OutsideRequests | undefined

  /** An agent replaces the file when it renews the token. */
  async function readToken(): Promise<string> {
    if (tokenFile === undefined) return token
    const text = (await readFile(tokenFile, 'utf8')).trim()
    if (!/^[!-~]+$/.test(text)) throw new Error('it holds no token')
    return text
  }

  async function ask(method: 'GET' | 'POST', path: string, body?: object): Promise<OutsideAnswer> {
    const current = await readToken().catch((cause: unknown) => {
      throw new HttpError('unavailable', authorityAway, { cause })
    })
    return requests!.send(method, path, body, { 'x-vault-token': current })
  }

  return {
    name: 'vault',

    async start() {
      const tls = await readTlsFiles('certificates.vault', options)
      try {
        await readToken()
      } catch (cause) {
        const { code, message } = cause as NodeJS.ErrnoException
        const problem = `certificates.vault.token_file: the file ${JSON.stringify(tokenFile)} cannot be read (${code ?? message}): give the path of a file that holds the token`
        throw new SecretError(problem, { cause })
      }
      const headers = { 'x-vault-request': 'true', ...(namespace === undefined ? {} : { 'x-vault-namespace': namespace }) }
      requests = openOutsideRequests({
        name: 'Vault',
        sentence: authorityAway,
        url,
        headers,
        ca: tls?.ca,
        timeoutMs,
        answerBytesMax: crlBytesMax,
      })
    },

    async sign({ thing, csr, ttlSeconds }) {
      const body = { csr: await csr(), common_name: thing, exclude_cn_from_sans: true, ttl: `${ttlSeconds}s`, format: 'pem' }
      const answer = await ask('POST', `${pki}/sign/${role}`, body)
      const { errors = [], data = {} } = requests!.jsonOf(answer, [400]) as SignAnswer
      if (errors.some(error => unknownRole.test(error))) throw requests!.unusable(answer, roleAdvice)
      // "Invalid request": the errors say what the role does not allow.
      if (answer.status === 400) throw authorityRefusal(errors.join('; '))
      return { certificate: data.certificate ?? '', issuingCa: data.issuing_ca ?? '', caChain: data.ca_chain ?? null }
    },

    async revoke(serial) {
      const answer = await ask('POST', `${pki}/revoke`, { serial_number: serial.match(/../g)!.join(':') })
      if (answer.status !== 200 && answer.status !== 204) throw requests!.unusable(answer)
    },

    /** Needs no token. */
    async crl() {
      const answer = await requests!.send('GET', `${pki}/crl`)
      if (answer.status !== 200) throw requests!.unusable(answer)
      return answer.body
    },

    async check() {
      const answer = await ask('GET', '/v1/auth/token/lookup-self')
      if (answer.status === 403) throw requests!.unusable(answer, tokenAdvice)
      const { data: { ttl = 0, creation_ttl: life = 0 } = {} } = requests!.jsonOf(answer) as TokenAnswer
      if (ttl < life * lastPart) throw new Error(`the token of Vault ends in ${ttl} s, of ${life}: ${tokenAdvice}`)
    },

    close: async () => requests?.close(),
  }
}
