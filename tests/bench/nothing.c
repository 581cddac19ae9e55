/* nothing - what it costs to start a static program and wait for it. */
int main(void)
{
	return 0;
}
