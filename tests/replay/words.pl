# CPU time in perl: a stack of its interpreter's functions
my %n;
my $text = join " ", map { $_ * 7 % 101 } 1 .. 400;
for my $round (1 .. ($ARGV[0] || 300)) {
	$n{$_}++ for split / /, $text;
	my @sorted = sort { $n{$a} <=> $n{$b} } keys %n;
	$text =~ s/(\d+)/$1/g;
}
