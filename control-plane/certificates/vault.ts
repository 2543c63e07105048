// The authority is the PKI engine of a HashiCorp Vault or OpenBao server, over the HTTP API that both have.
//
// Documentation: "PKI secrets engine (API)", sections "Sign certificate", "Revoke certificate" and "Read issuer CRL"; "HTTP API", section "HTTP status
// codes".

import { readTlsFiles } from '../../config/tls-files.ts'
import { type OutsideRequests, openOutsideRequests } from '../outside-requests.ts'
import { type Authority, authorityAway, authorityRefusal } from './authority.ts'
import type { CertificatesOptions } from './options.ts'

interface SignAnswer {
  readonly errors?: readonly string[]
  readonly data?: { readonly certificate?: string; readonly issuing_ca?: string; readonly ca_chain?: readonly string[] | null }
}

export function openVault(options: CertificatesOptions['vault']): Authority {
  const { url, mount, role, namespace, token = '', timeoutMs } = options
  const pki = `/v1/${mount}`
  let requests: OutsideRequests | undefined

  return {
    name: 'vault',

    async start() {
      const tls = await readTlsFiles('certificates.vault', options)
      const headers = {
        'x-vault-token': token,
        'x-vault-request': 'true',
        ...(namespace === undefined ? {} : { 'x-vault-namespace': namespace }),
      }
      requests = openOutsideRequests({ name: 'Vault', sentence: authorityAway, url, headers, ca: tls?.ca, timeoutMs })
    },

    async sign({ thing, csr, ttlSeconds }) {
      const body = { csr, common_name: thing, exclude_cn_from_sans: true, ttl: `${ttlSeconds}s`, format: 'pem' }
      const answer = await requests!.send('POST', `${pki}/sign/${role}`, body)
      const { errors = [], data = {} } = requests!.jsonOf(answer, [400]) as SignAnswer
      // "Invalid request": the errors name what the role does not allow.
      if (answer.status === 400) throw authorityRefusal(errors.join('; '))
      return { certificate: data.certificate ?? '', issuingCa: data.issuing_ca ?? '', caChain: data.ca_chain ?? null }
    },

    async revoke(serials) {
      await Promise.all(
        serials.map(async serial => {
          const answer = await requests!.send('POST', `${pki}/revoke`, { serial_number: serial.match(/../g)!.join(':') })
          if (answer.status !== 200 && answer.status !== 204) throw requests!.unusable(answer)
        }),
      )
    },

    async crl() {
      const answer = await requests!.send('GET', `${pki}/crl`)
      if (answer.status !== 200) throw requests!.unusable(answer)
      return answer.body
    },

    close: async () => requests?.close(),
  }
}
